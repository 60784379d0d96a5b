package reservations_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
)

// split is 40 tokens a second in 4 shards of 5 and 10 a second each.
func split() reservations.Limit {
	m := reservations.PerSecond("tokens", 40)
	m.Capacity = 20
	return reservations.Limit{Name: "hot", Shards: 4, Meters: []reservations.Meter{m}}
}

func TestShardsHoldTheirPart(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, split())
	ctx := t.Context()
	started := map[int]int{}
	for range 200 {
		c := chargeOf("hot", 1)
		o, err := l.Begin(ctx, c, reservations.Place{})
		if err != nil || o.Shard < 1 || o.Shard > 4 {
			t.Fatalf("%+v, %v", o, err)
		}
		if o.Started() && o.Hold == 0 {
			started[o.Shard]++
		}
	}
	if diff := cmp.Diff(map[int]int{1: 5, 2: 5, 3: 5, 4: 5}, started); diff != "" {
		t.Error(diff)
	}
	for shard := 1; shard <= 4; shard++ {
		b, ok, _ := l.mem.Bucket(ctx, fmt.Sprintf("hot#%d", shard), "")
		if !ok || b.Meters[0].Ledgers[reservations.LedgerLine] > -20 {
			t.Errorf("shard %d: %+v: the waiting ones are not spread", shard, b)
		}
	}
}

// What gives back, corrects or blocks is answered at once, and says nothing of how long a newcomer would wait in that shard.
func TestShardIsChosenByAnswersToNewcomers(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, reservations.Limit{Name: "hot", Shards: 2, Meters: []reservations.Meter{reservations.PerMinute("tokens", 60)}})
	ctx, first := t.Context(), chargeOf("hot", 30)
	first.Shard = 1
	for range 2 { // the second waits half a minute
		if _, err := l.Begin(ctx, first, reservations.Place{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Sync(ctx, first, reservations.Observation{Remaining: reservations.Tokens{"tokens": 60}}); err != nil {
		t.Fatal(err)
	}
	one := chargeOf("hot", 1)
	one.Shard = 1
	if _, err := l.Yield(ctx, one); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if o, err := l.Begin(ctx, chargeOf("hot", 1), reservations.Place{}); err != nil || o.Shard != 2 {
			t.Fatalf("%+v, %v: want the shard with room", o, err)
		}
	}
}

// Whoever waits comes back to the shard it waits in, and settles there.
func TestShardStaysWithTheTask(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, split())
	ctx := t.Context()
	c := chargeOf("hot", 5)
	waits := reservations.Outcome{State: reservations.StateStarted}
	for waits.Started() { // each shard starts one of them
		var err error
		if waits, err = l.Begin(ctx, c, reservations.Place{}); err != nil {
			t.Fatal(err)
		}
	}
	if waits.Place().Shard != waits.Shard {
		t.Fatalf("%+v", waits)
	}
	l.now = l.now.Add(waits.Wait())
	back, err := l.Begin(ctx, c, waits.Place())
	if err != nil || back.Shard != waits.Shard {
		t.Fatalf("%+v, %v: want shard %d", back, err, waits.Shard)
	}
	if _, err = l.Settle(ctx, c, reservations.Tokens{"tokens": 1}, ""); !errors.Is(err, reservations.ErrInvalidCharge) {
		t.Errorf("%v: a charge without its shard can't be settled", err)
	}
	c.Shard = back.Shard
	settled, err := l.Settle(ctx, c, reservations.Tokens{"tokens": 1}, "")
	if err != nil || settled.Shard != back.Shard || settled.Version <= back.Version {
		t.Errorf("%+v, %v", settled, err)
	}
	for _, p := range []reservations.Place{{State: reservations.StateReserved, Shard: 9}, {State: reservations.StateReserved}} {
		o, err := l.Begin(ctx, chargeOf("hot", 1), p)
		if err != nil || o.State == reservations.StateLate {
			t.Errorf("%+v, %v: a place of another number of shards means nothing", o, err)
		}
	}
}

func TestShardsAreAllAsked(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, split())
	ctx := t.Context()
	blocked, err := l.BlockAll(ctx, reservations.Charge{Limit: "hot", Key: "k", Shard: 3}, time.Minute)
	if err != nil || len(blocked) != 4 || blocked[0].Shard != 3 {
		t.Fatalf("%+v, %v", blocked, err)
	}
	for range 20 {
		c := chargeOf("hot", 1)
		c.Key = "k"
		if o, err := l.Begin(ctx, c, reservations.Place{}); err != nil || o.Wait() < time.Minute {
			t.Fatalf("%+v, %v: blocked", o, err)
		}
	}
	if _, err := l.Revise(ctx, "hot", "k"); err != nil {
		t.Fatal(err)
	}
	before, _, _ := l.mem.Bucket(ctx, "hot#2", "k")
	other, _, _ := l.mem.Bucket(ctx, "hot#1", "k")
	if o, err := l.Revise(ctx, "hot#2", "k"); err != nil || o.Shard != 2 || o.Version != before.Version+1 {
		t.Errorf("%+v, %v", o, err)
	}
	if b, _, _ := l.mem.Bucket(ctx, "hot#1", "k"); b.Version != other.Version {
		t.Error("a revision of one shard has asked another")
	}
	if err := l.Reset(ctx, "hot", "k"); err != nil {
		t.Fatal(err)
	}
	for shard := 1; shard <= 4; shard++ {
		if _, ok, _ := l.mem.Bucket(ctx, fmt.Sprintf("hot#%d", shard), "k"); ok {
			t.Errorf("shard %d is not reset", shard)
		}
	}
}

// Many reservations are spread in runs, so that each shard is asked once.
func TestReserveManyIsSpreadOverShards(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, split())
	charges := make([]reservations.Charge, 10)
	for i := range charges {
		charges[i] = chargeOf("hot", 5)
	}
	outcomes, err := l.ReserveMany(t.Context(), charges)
	if err != nil {
		t.Fatal(err)
	}
	count, changes := map[int]int{}, 0
	for i, o := range outcomes {
		count[o.Shard]++
		if i > 0 && o.Shard != outcomes[i-1].Shard {
			changes++
		}
	}
	if changes != 3 || len(count) != 4 || max(count[1], count[2], count[3], count[4]) != 3 || min(count[1], count[2], count[3], count[4]) != 2 {
		t.Errorf("%v with %d changes", count, changes)
	}
	if o, err := l.ReserveMany(t.Context(), charges[:1]); err != nil || o[0].Shard == 0 {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestShardsThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*reservations.Limit)
		want   string
	}{
		"negative":     {func(l *reservations.Limit) { l.Shards = -1 }, "shards: -1 must be between 1 and 256"},
		"too many":     {func(l *reservations.Limit) { l.Shards = 257 }, "shards: 257 must be between 1 and 256"},
		"nothing left": {func(l *reservations.Limit) { l.Shards = 64 }, "shards: capacity 20 of tokens in 64 shards is 0.312 each"},
		"window": {func(l *reservations.Limit) {
			l.Meters = append(l.Meters, reservations.PerDay("day", 10001))
		}, "shards: 4 must divide the rate 10001 of the window day evenly"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := split()
			c.change(&l)
			if err := l.Validate(); !errors.Is(err, reservations.ErrInvalidLimit) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v", err)
			}
		})
	}
	l := setupLimiter(t, split())
	_, err := l.Begin(t.Context(), chargeOf("hot", 6), reservations.Place{})
	if !errors.Is(err, reservations.ErrChargeTooLarge) || !strings.Contains(err.Error(), "capacity 20 of 4 shards is 5 each") {
		t.Errorf("error is %v", err)
	}
	err = l.SetOverrides([]reservations.Override{{Limit: "hot", Meter: "tokens", Rate: 40, Period: time.Second, Capacity: 3}})
	if !errors.Is(err, reservations.ErrInvalidLimit) {
		t.Errorf("%v: an override that makes shards impossible", err)
	}
}

// Whatever is asked of a sharded limit, all shards together start no more than the limit allows in any window of time.
func TestShardsKeepTheLimit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		shards := rapid.IntRange(2, 8).Draw(t, "shards")
		rate := float64(shards) * rapid.Float64Range(1, 20).Draw(t, "rate")
		capacity := float64(shards) * rapid.Float64Range(1, 10).Draw(t, "capacity")
		now := clock(1000)
		m := reservations.Meter{Name: "tokens", Rate: rate, Period: time.Second, Capacity: capacity, MaxReserved: reservations.Unlimited}
		l, err := reservations.New(memstore.New(func() time.Time { return now }), []reservations.Limit{{Name: "hot", Shards: shards, Meters: []reservations.Meter{m}}}, reservations.Config{})
		if err != nil {
			t.Fatal(err)
		}
		type start struct {
			at time.Time
			n  float64
		}
		var starts []start
		var waiting []reservations.Place
		each := capacity / float64(shards)
		for range rapid.IntRange(20, 120).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "pause")) * time.Millisecond)
			p := reservations.Place{}
			if len(waiting) > 0 && rapid.Bool().Draw(t, "returns") {
				p, waiting = waiting[0], waiting[1:]
			}
			n := each * rapid.Float64Range(0.05, 1).Draw(t, "part")
			o, err := l.Begin(context.Background(), reservations.Charge{Limit: "hot", Tokens: reservations.Tokens{"tokens": n}}, p)
			if err != nil {
				t.Fatal(err)
			}
			if !o.Started() {
				waiting = append(waiting, o.Place())
				continue
			}
			starts = append(starts, start{now.Add(o.Hold), n})
		}
		for i := range starts {
			for j := range starts {
				from, to, sum := starts[i].at, starts[j].at, 0.
				if to.Before(from) {
					continue
				}
				for _, s := range starts {
					if !s.at.Before(from) && !s.at.After(to) {
						sum += s.n
					}
				}
				if allowed := capacity + rate*to.Sub(from).Seconds(); sum > allowed*(1+1e-9)+1e-6 {
					t.Fatalf("%v tokens in %v, allowed %v", sum, to.Sub(from), allowed)
				}
			}
		}
	})
}

// With two choices the shards are used evenly, and what waits is spread.
func TestShardsAreUsedEvenly(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, split())
	started := 0.
	var waiting []reservations.Place
	begin := func(p reservations.Place) {
		o, err := l.Begin(t.Context(), chargeOf("hot", 1), p)
		if err != nil {
			t.Fatal(err)
		}
		if o.Started() {
			started++
		} else {
			waiting = append(waiting, o.Place())
		}
	}
	const seconds = 30
	for range seconds * 10 {
		for range 4 {
			begin(reservations.Place{})
		}
		due := waiting
		waiting = nil
		for _, p := range due {
			if !p.Due.After(l.now) {
				begin(p)
			} else {
				waiting = append(waiting, p)
			}
		}
		l.now = l.now.Add(time.Duration(90+rand.IntN(20)) * time.Millisecond)
	}
	if most := 20 + 40.*seconds*1.05; started < 0.9*40*seconds || started > most {
		t.Errorf("%v of %v started", started, 40*seconds)
	}
}

// No window of a sharded limit ever sees more than its rate, whatever the key and its start.
func TestShardsKeepFixedWindows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		shards := rapid.IntRange(2, 6).Draw(t, "shards")
		rate := float64(shards * rapid.IntRange(1, 8).Draw(t, "each"))
		m := reservations.Meter{
			Name: "tokens", Kind: reservations.KindWindow, Rate: rate, Period: 5 * time.Second, MaxReserved: reservations.Unlimited,
			Start: time.Duration(rapid.IntRange(0, 4999).Draw(t, "start")) * time.Millisecond,
		}
		now := clock(1000)
		l, err := reservations.New(memstore.New(func() time.Time { return now }), []reservations.Limit{{Name: "hot", Shards: shards, Meters: []reservations.Meter{m}}}, reservations.Config{})
		if err != nil {
			t.Fatal(err)
		}
		used := map[int64]float64{}
		var waiting []reservations.Place
		for range rapid.IntRange(20, 150).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 900).Draw(t, "pause")) * time.Millisecond)
			p := reservations.Place{}
			if len(waiting) > 0 && rapid.Bool().Draw(t, "returns") {
				p, waiting = waiting[0], waiting[1:]
			}
			o, err := l.Begin(context.Background(), chargeOf("hot", 1), p)
			if err != nil {
				t.Fatal(err)
			}
			if !o.Started() {
				waiting = append(waiting, o.Place())
				continue
			}
			window := (now.Add(o.Hold).UnixNano() - int64(m.Start)) / int64(m.Period)
			if used[window]++; used[window] > rate {
				t.Fatalf("%v tokens in a window of %v", used[window], rate)
			}
		}
	})
}
