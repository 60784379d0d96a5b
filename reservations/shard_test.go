package reservations_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/reservations"
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
	starts := map[int]int{}
	for range 200 {
		o, err := l.Ask(ctx, chargeOf("hot", 1))
		if err != nil || o.Charge.Shard < 1 || o.Charge.Shard > 4 {
			t.Fatalf("%+v, %v", o, err)
		}
		if o.Started() && o.Hold == 0 {
			starts[o.Charge.Shard]++
		}
	}
	if diff := cmp.Diff(map[int]int{1: 5, 2: 5, 3: 5, 4: 5}, starts); diff != "" {
		t.Error(diff)
	}
	for shard := 1; shard <= 4; shard++ {
		if b := l.bucket(fmt.Sprintf("hot#%d", shard), ""); b.At.IsZero() || b.Meters[0].Reserved > -20 {
			t.Errorf("shard %d: %+v: the waiting tasks are not spread", shard, b)
		}
	}
}

// A settlement, a sync or a promoted task says nothing of how long a new task would wait in that shard.
func TestShardIsChosenByAnswersToNewTasks(t *testing.T) {
	t.Parallel()
	hot := reservations.Limit{Name: "hot", Shards: 2, Meters: []reservations.Meter{reservations.PerMinute("tokens", 60)}}
	l := setupLimiter(t, hot)
	ctx, first := t.Context(), chargeOf("hot", 30)
	first.Shard = 1
	for range 2 { // the second waits half a minute
		if _, err := l.Ask(ctx, first); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Sync(ctx, first, reservations.Observation{Remaining: reservations.Tokens{"tokens": 60}}); err != nil {
		t.Fatal(err)
	}
	first.Held = reserved
	if _, err := l.Release(ctx, first); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if o, err := l.Ask(ctx, chargeOf("hot", 1)); err != nil || o.Charge.Shard != 2 {
			t.Fatalf("%+v, %v: want the shard with room", o, err)
		}
	}
	if c := l.Choose(chargeOf("hot", 1)); c.Shard != 2 {
		t.Errorf("chose %+v", c)
	}
	if c := l.Choose(chargeOf("none", 1)); c.Shard != 0 {
		t.Errorf("chose %+v", c)
	}
}

// A waiting task comes back to the shard that it waits for, and settles there.
func TestShardStaysWithTheTask(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, split())
	ctx := t.Context()
	c := chargeOf("hot", 5)
	waits := reservations.Outcome{State: started}
	for waits.Started() { // each shard starts one of them
		var err error
		if waits, err = l.Ask(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	held := waits.Charge
	if held.Shard == 0 || held.Held != reserved {
		t.Fatalf("%+v", held)
	}
	l.now = l.now.Add(waits.Wait())
	back, err := l.Ask(ctx, held)
	if err != nil || !back.Started() || back.Charge.Shard != held.Shard {
		t.Fatalf("%+v, %v: want shard %d", back, err, held.Shard)
	}
	if _, err = l.Settle(ctx, c, reservations.Tokens{"tokens": 1}, ""); !errors.Is(err, reservations.ErrInvalidCharge) {
		t.Errorf("%v: a charge without its shard can't be settled", err)
	}
	done, err := l.Settle(ctx, back.Charge, reservations.Tokens{"tokens": 1}, "")
	if err != nil || done.Charge.Shard != held.Shard || done.Bucket.Version <= back.Bucket.Version {
		t.Errorf("%+v, %v", done, err)
	}
	for _, shard := range []int{9, 0} {
		c := chargeOf("hot", 1)
		c.Shard, c.Held = shard, waiting
		o, err := l.Ask(ctx, c)
		if err != nil || o.Charge.Shard < 1 || o.Charge.Shard > 4 {
			t.Errorf("%+v, %v: a reservation of another number of shards means nothing", o, err)
		}
	}
}

func TestShardsAreAllAsked(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, split())
	ctx := t.Context()
	third := reservations.Charge{Limit: "hot", Key: "k"}
	third.Shard = 3
	blocked, err := l.Block(ctx, third, time.Minute)
	if err != nil || len(blocked) != 4 || blocked[0].Charge.Shard != 3 {
		t.Fatalf("%+v, %v", blocked, err)
	}
	for range 20 {
		c := chargeOf("hot", 1)
		c.Key = "k"
		if o, fault := l.Ask(ctx, c); fault != nil || o.Wait() < time.Minute {
			t.Fatalf("%+v, %v: blocked", o, fault)
		}
	}
	all, err := l.Refresh(ctx, third)
	if err != nil || len(all) != 4 || all[0].Charge.Shard != 3 || all[3].Charge.Shard != 2 {
		t.Errorf("%+v, %v", all, err)
	}
	if all, err := l.Unblock(ctx, "hot", "k"); err != nil || len(all) != 4 ||
		slices.ContainsFunc(all, func(o reservations.Outcome) bool {
			return !o.Bucket.Blocked.IsZero()
		}) {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err := l.Sync(ctx, third, reservations.Observation{
		Remaining: reservations.Tokens{"tokens": 40},
		Up:        true,
	}); err != nil {
		t.Fatal(err)
	}
	for shard := 1; shard <= 4; shard++ {
		if b := l.bucket(fmt.Sprintf("hot#%d", shard), "k"); b.Meters[0].Started != 5 {
			t.Errorf("shard %d is not synced: %+v", shard, b)
		}
	}
	if err := l.Reset(ctx, "hot", "k"); err != nil {
		t.Fatal(err)
	}
	for shard := 1; shard <= 4; shard++ {
		if !l.bucket(fmt.Sprintf("hot#%d", shard), "k").At.IsZero() {
			t.Errorf("shard %d is not reset", shard)
		}
	}
}

// Many reservations are spread in runs, so that each shard is asked once.
func TestReserveIsSpreadOverShards(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, split())
	charges := slices.Repeat([]reservations.Charge{chargeOf("hot", 5)}, 10)
	outcomes, err := l.Reserve(t.Context(), charges...)
	if err != nil {
		t.Fatal(err)
	}
	count, changes := map[int]int{}, 0
	for i, o := range outcomes {
		count[o.Charge.Shard]++
		if i > 0 && o.Charge.Shard != outcomes[i-1].Charge.Shard {
			changes++
		}
	}
	most, least := max(count[1], count[2], count[3], count[4]), min(count[1], count[2], count[3], count[4])
	if changes != 3 || len(count) != 4 || most != 3 || least != 2 {
		t.Errorf("%v with %d changes", count, changes)
	}
	if o, err := l.Reserve(t.Context(), charges[0]); err != nil || o[0].Charge.Shard == 0 {
		t.Errorf("%+v, %v", o, err)
	}
	l.store.faults = []fault{"", down}
	if o, err := l.Reserve(t.Context(), charges...); !errors.Is(err, reservations.ErrUnavailable) || o != nil {
		t.Errorf("with one shard away: %+v, %v", o, err)
	}
}

func TestShardsThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*reservations.Limit)
		want   string
	}{
		"negative": {func(l *reservations.Limit) { l.Shards = -1 }, "shards: -1 must be between 1 and 256"},
		"too many": {func(l *reservations.Limit) { l.Shards = 257 }, "shards: 257 must be between 1 and 256"},
		"nothing left": {
			func(l *reservations.Limit) { l.Shards = 64 }, "shards: capacity 20 of tokens in 64 shards is 0.312 each",
		},
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
	_, err := l.Ask(t.Context(), chargeOf("hot", 6))
	if !errors.Is(err, reservations.ErrChargeTooLarge) ||
		!strings.Contains(err.Error(), "capacity 20 of 4 shards is 5 each") {
		t.Errorf("error is %v", err)
	}
	err = inside.Of(l).SetOverrides([]reservations.Override{{
		Limit: "hot", Meter: "tokens", Rate: 40, Period: time.Second,
		Capacity: 3,
	}})
	if !errors.Is(err, reservations.ErrInvalidLimit) {
		t.Errorf("%v: an override that makes shards impossible", err)
	}
}

// With two choices the shards are used evenly, and waiting tasks are spread.
func TestShardsAreUsedEvenly(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, split())
	starts := 0.
	var waits []reservations.Outcome
	ask := func(c reservations.Charge) {
		o, err := l.Ask(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		if o.Started() {
			starts++
			return
		}
		waits = append(waits, o)
	}
	const seconds = 30
	r := rand.New(rand.NewPCG(1, 1))
	for range seconds * 10 {
		for range 4 {
			ask(chargeOf("hot", 1))
		}
		all := waits
		waits = nil
		for _, w := range all {
			if w.RetryAt.After(l.now) {
				waits = append(waits, w)
			} else {
				ask(w.Charge)
			}
		}
		l.now = l.now.Add(time.Duration(90+r.IntN(20)) * time.Millisecond)
	}
	if most := 20 + 40.*seconds*1.05; starts < 0.9*40*seconds || starts > most {
		t.Errorf("%v of %v started", starts, 40*seconds)
	}
}
