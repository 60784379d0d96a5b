package reservations_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headway-go/headway/internal/longtest"
	"github.com/headway-go/headway/reservations"
)

// How often a task is delivered at most for each limit that it names, once nothing disturbs any more. Where the rate of a window that holds less
// than its rate was changed, those who wait behind max_reserved are told times that are too early, once for each window in their way.
const (
	deliveriesAfter  = 16
	deliveriesNarrow = 100
)

// Random limits, charges, outages, crashes, blocks, settlements, changes, and clocks that run back: no window of any meter exceeds what the limits in
// force allowed, whoever asks for nothing changes nothing, nothing is minted, nobody is left over, and at the end all ledgers are full.
func TestHistoriesKeepTheLimits(t *testing.T) {
	t.Parallel()
	rounds := 12 // each -rapid.checks histories, 100 where nothing is said
	if longtest.Short(t, time.Minute) {
		rounds = 2
	}
	for range rounds {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, keepsTheLimits)
		})
	}
}

func keepsTheLimits(t *rapid.T) {
	h := newHistory(t)
	t.Repeat(h.actions())
	h.calm(t)
	h.check(t)
	h.idle(t)
	h.check(t)
}

func (h *history) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"":            h.check,
		"new":         func(t *rapid.T) { h.deliver(t, h.newJob(t)) },
		"burst":       h.burst,
		"on time":     func(t *rapid.T) { h.returns(t, 0) },
		"on time too": func(t *rapid.T) { h.returns(t, 0) },
		"early or late": func(t *rapid.T) {
			h.returns(t, rapid.SampledFrom([]time.Duration{-time.Hour, -time.Second, time.Millisecond, time.Second, time.Minute}).Draw(t, "late"))
		},
		"twice":        h.twice,
		"forgets":      h.forgets,
		"crash":        h.crash,
		"answer lost":  h.answerLost,
		"reserve":      h.reserve,
		"release":      h.release,
		"advance":      h.advance,
		"take":         h.take,
		"dry":          h.dry,
		"settle":       h.settle,
		"settle again": h.settleAgain,
		"cancel":       h.cancel,
		"block":        h.block,
		"sync":         h.sync,
		"reset":        h.reset,
		"change":       h.change,
		"override":     h.override,
		"time passes":  h.timePasses,
		"clock back":   h.clockBack,
	}
}

func (h *history) newJob(t *rapid.T) *job {
	h.jobs++
	j := &job{id: h.jobs, charges: h.drawCharges(t)}
	j.places = make([]reservations.Place, len(j.charges))
	return j
}

func who(t *rapid.T) int { return rapid.IntRange(0, 1).Draw(t, "limiter") }

func (h *history) deliver(t *rapid.T, j *job) {
	if !h.attempt(t, j, who(t)) {
		h.again(j)
	}
}

func (h *history) burst(t *rapid.T) {
	j := h.newJob(t)
	for range rapid.IntRange(2, 12).Draw(t, "burst") {
		h.jobs++
		h.deliver(t, &job{id: h.jobs, charges: j.charges, places: make([]reservations.Place, len(j.charges))})
	}
}

func (h *history) returns(t *rapid.T, late time.Duration) {
	if j := h.who(t); j != nil {
		h.pass(h.wait(j) + late)
		h.deliver(t, j)
	}
}

func (h *history) twice(t *rapid.T) {
	if j := h.who(t); j != nil {
		other := *j
		other.places = slices.Clone(j.places)
		other.deliveries += 1000 // its starts have names of their own
		h.deliver(t, j)
		h.deliver(t, &other)
	}
}

func (h *history) forgets(t *rapid.T) {
	if j := h.who(t); j != nil {
		j.places, j.stood = make([]reservations.Place, len(j.places)), 0
		h.deliver(t, j)
	}
}

// crash loses a task that waits, and one that runs.
func (h *history) crash(t *rapid.T) {
	if j := h.who(t); j != nil {
		h.tell("task %d never comes back", j.id)
	}
	if len(h.running) > 0 {
		h.tell("%s is never settled", h.running[0].id)
		h.running = h.running[1:]
	}
}

func (h *history) answerLost(t *rapid.T) {
	if j := h.who(t); j != nil {
		h.tell("the next answer is lost")
		h.lose = true
		h.deliver(t, j)
		h.lose = false
	}
}

func (h *history) reserve(t *rapid.T) {
	h.asking = who(t)
	j := h.newJob(t)
	c, ok := h.known(h.asking, j.charges[0])
	if !ok {
		return
	}
	c.Shard = h.shard(t, c.Limit)
	many := slices.Repeat([]reservations.Charge{c}, rapid.IntRange(1, 5).Draw(t, "many"))
	outcomes, err := h.limiters[h.asking].ReserveMany(t.Context(), many)
	h.tell("%d reserves %v %d times: %v %v", h.asking, c, len(many), outcomes, err)
	for _, o := range outcomes {
		h.jobs++
		other := &job{id: h.jobs, charges: j.charges, places: make([]reservations.Place, len(j.charges))}
		other.places[0] = o.Place()
		h.again(other)
	}
}

func (h *history) release(t *rapid.T) {
	j := h.who(t)
	if j == nil {
		return
	}
	h.asking = who(t)
	for i, p := range j.places {
		if c, ok := h.known(h.asking, j.charges[i]); ok && p.State != "" {
			o, err := h.limiters[h.asking].Release(t.Context(), c, p)
			h.tell("%d releases task %d %v as %s: %s %v", h.asking, j.id, c, p.State, o.State, err)
		}
	}
}

// advance moves the line in which a task stands on, as if that were the first.
func (h *history) advance(t *rapid.T) {
	j := h.who(t)
	if j == nil {
		return
	}
	h.asking = who(t)
	c, ok := h.known(h.asking, j.charges[j.stood])
	p := j.places[j.stood]
	if !ok || p.State == "" {
		return
	}
	c.Shard = p.Shard
	most := rapid.SampledFrom([]time.Duration{0, 100 * time.Millisecond, 5 * time.Second, reservations.MaxWait}).Draw(t, "most")
	o, moved, err := h.limiters[h.asking].Advance(t.Context(), c, p, most)
	h.tell("%d moves the line of task %d %v on by %v of %v: %s %v", h.asking, j.id, c, moved, most, o.State, err)
	rounded := time.Microsecond
	if o.Speed > 0 {
		rounded += time.Duration(4 / o.Speed) // a nanosecond of a clock that runs slowly is long
	}
	if moved < 0 || moved > max(0, most)+rounded {
		h.fail(t, "moved by %v, at most %v", moved, most)
	}
}

// one draws a charge that a limiter knows.
func (h *history) one(t *rapid.T) reservations.Charge {
	h.asking = who(t)
	c, _ := h.known(h.asking, h.drawCharge(t, rapid.SampledFrom(h.limits[0]).Draw(t, "limit")))
	c.Shard = h.shard(t, c.Limit)
	return c
}

func (h *history) take(t *rapid.T) {
	c := h.one(t)
	o, err := h.limiters[h.asking].Take(t.Context(), c)
	h.tell("%d takes %v: %s %v %v", h.asking, c, o.State, o.Wait(), err)
	if o.Started() {
		h.jobs++
		h.running = append(h.running, &run{id: fmt.Sprint("take", h.jobs), charges: []reservations.Charge{c}, settled: map[int]bool{}})
	}
}

func (h *history) dry(t *rapid.T) {
	c := h.one(t)
	o, err := h.limiters[h.asking].Check(t.Context(), c)
	p, taken := h.limiters[h.asking].CheckTake(t.Context(), c)
	h.tell("%d checks %v: %s %v, %s %v", h.asking, c, o.State, err, p.State, taken)
}

// finished is one that runs, at the latest after its hold.
func (h *history) finished(t *rapid.T) *run {
	if len(h.running) == 0 {
		return nil
	}
	i := rapid.IntRange(0, len(h.running)-1).Draw(t, "which")
	r := h.running[i]
	h.running = slices.Delete(h.running, i, i+1)
	h.done = append(h.done, r)
	h.pass(time.Duration((r.at - h.passed) * float64(time.Second)))
	h.pass(rapid.SampledFrom([]time.Duration{time.Microsecond, reservations.Hold, 3 * time.Second}).Draw(t, "runs"))
	return r
}

func (h *history) settle(t *rapid.T) {
	if r := h.finished(t); r != nil {
		h.correct(t, r, false)
	}
}

func (h *history) cancel(t *rapid.T) {
	if r := h.finished(t); r != nil {
		h.correct(t, r, true)
	}
}

// settleAgain sends a settlement once more, by the same id.
func (h *history) settleAgain(t *rapid.T) {
	if len(h.done) > 0 {
		h.correct(t, rapid.SampledFrom(h.done).Draw(t, "which"), rapid.Bool().Draw(t, "cancel"))
	}
}

// correct settles a run in all its limits. What may come back is known here: once, what was charged and not used, where the meter gives back at all.
func (h *history) correct(t *rapid.T, r *run, cancel bool) {
	h.asking = who(t)
	limiter := h.limiters[h.asking]
	lost := rapid.IntRange(0, 5).Draw(t, "lost") == 0
	for i := range r.charges {
		c, ok := h.known(h.asking, r.charges[i])
		if !ok {
			continue
		}
		used, keeps := reservations.Tokens{}, h.keeps(h.asking, c.Limit)
		h.back = reservations.Tokens{}
		for meter, n := range c.Tokens {
			used[meter] = n * rapid.SampledFrom([]float64{0, .3, 1, 1.5}).Draw(t, "used")
			if !r.settled[i] && (cancel || !keeps[meter]) {
				h.back[meter] = n - used[meter]
			}
			if cancel && !r.settled[i] {
				h.back[meter] = n
			}
		}
		ctx := t.Context()
		if h.lose = lost; lost {
			ctx = doneLater{ctx, h} // it does not try again by the real clock
		}
		ask := func() (reservations.Outcome, error) { return limiter.Settle(ctx, c, used, r.id) }
		if cancel {
			ask = func() (reservations.Outcome, error) { return limiter.Cancel(ctx, c, r.id) }
		}
		o, err := ask()
		h.tell("%d settles %s (cancel %v) %v, used %v, may have back %v: %s %v", h.asking, r.id, cancel, c, used, h.back, o.State, err)
		r.settled[i] = r.settled[i] || !o.At.IsZero() || errors.Is(err, reservations.ErrUnavailable)
		h.lose, h.back = false, nil
	}
}

// doneLater is a context that ends with the answer that is lost.
type doneLater struct {
	context.Context //nolint:containedctx // it is one

	h *history
}

func (c doneLater) Err() error {
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	if !c.h.lose {
		return context.Canceled
	}
	return nil
}

func (h *history) keeps(as int, limit string) map[string]bool {
	keeps := map[string]bool{}
	for _, l := range h.limits[as] {
		for _, m := range l.Meters {
			if l.Name == limit {
				keeps[m.Name] = m.Settle == reservations.SettleKeep || m.Settle == "" && l.Settle == reservations.SettleKeep
			}
		}
	}
	return keeps
}

func (h *history) block(t *rapid.T) {
	c := h.one(t)
	d := rapid.SampledFrom([]time.Duration{100 * time.Millisecond, 700 * time.Millisecond, 3 * time.Second, 100 * time.Second}).Draw(t, "for")
	h.blocks++
	o, err := h.limiters[h.asking].Block(t.Context(), c.Limit, c.Key, d)
	h.tell("%d blocks %s:%s for %v: %v %v", h.asking, c.Limit, c.Key, d, o.Wait(), err)
}

// sync corrects downwards, whatever the provider says.
func (h *history) sync(t *rapid.T) {
	c := h.one(t)
	seen := reservations.Observation{Remaining: c.Tokens, Age: rapid.SampledFrom([]time.Duration{0, 10 * time.Millisecond, time.Minute}).Draw(t, "age")}
	o, err := h.limiters[h.asking].Sync(t.Context(), c, seen)
	h.tell("%d syncs %s:%s to %+v: %s %v", h.asking, c.Limit, c.Key, seen, o.State, err)
}

// reset is rare: it ends all windows.
func (h *history) reset(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "really") > 0 {
		return
	}
	c := h.one(t)
	err := h.limiters[h.asking].Reset(t.Context(), c.Limit, c.Key)
	h.tell("%d resets %s:%s: %v", h.asking, c.Limit, c.Key, err)
	h.forget(c.Limit, c.Key)
	h.done = nil // the bucket has forgotten them
}

func (h *history) change(t *rapid.T) {
	as := who(t)
	next := h.limits[1-as]
	if rapid.Bool().Draw(t, "other") {
		next = h.drawChange(t, next)
	}
	if err := h.limiters[as].SetLimits(next); err != nil {
		h.tell("%d can't have %+v: %v", as, next, err)
		return
	}
	h.limits[as] = next
	h.noteNarrow(as)
	h.tell("%d is given %+v", as, next)
	h.revise(t, as)
}

func (h *history) override(t *rapid.T) {
	as := who(t)
	if h.given[as] = h.given[1-as]; rapid.Bool().Draw(t, "other") {
		h.given[as] = append(slices.Clone(h.given[as]), h.drawOverride(t, h.limits[as]))
	}
	if rapid.IntRange(0, 3).Draw(t, "none") == 0 {
		h.given[as] = nil
	}
	err := h.limiters[as].SetOverrides(h.given[as])
	h.noteNarrow(as)
	h.tell("%d is given overrides %+v: %v", as, h.given[as], err)
	h.revise(t, as)
}

// noteNarrow notes a window that was changed and holds less than its rate.
func (h *history) noteNarrow(as int) {
	for _, name := range limitNames {
		for _, key := range []string{"", "k"} {
			l, _ := h.limiters[as].Limits().For(name, key)
			for _, m := range l.Meters {
				if m.Kind == reservations.KindWindow && m.Cap() < m.Rate {
					h.most = deliveriesNarrow
				}
			}
		}
	}
}

// revise tells the judge of other limits, and sometimes the buckets.
func (h *history) revise(t *rapid.T, as int) {
	h.changes++
	h.revised()
	if rapid.Bool().Draw(t, "revise") {
		h.reviseAll(t, as)
	}
}

func (h *history) reviseAll(t *rapid.T, as int) {
	h.asking = as
	for _, l := range h.limits[as] {
		for _, key := range []string{"", "k"} {
			if _, err := h.limiters[as].Revise(t.Context(), l.Name, key); err != nil {
				h.fail(t, "revise %s:%s: %v", l.Name, key, err)
			}
		}
	}
}

func (h *history) timePasses(t *rapid.T) {
	d := rapid.SampledFrom([]time.Duration{time.Millisecond, 50 * time.Millisecond, 300 * time.Millisecond, time.Second, 7 * time.Second, time.Minute, 10 * time.Minute}).Draw(t, "passes")
	h.pass(d)
	h.tell("%v pass", d)
}

func (h *history) clockBack(t *rapid.T) {
	d := rapid.SampledFrom([]time.Duration{10 * time.Millisecond, 200 * time.Millisecond, 30 * time.Second, 90 * time.Second, time.Hour}).Draw(t, "back")
	h.clock = h.clock.Add(-d)
	h.tell("the clock runs back by %v", d)
}

// calm ends the disturbances: both limiters go by the same limits, and everybody comes back when told, of two at one moment the elder first. Nobody is
// delivered often.
func (h *history) calm(t *rapid.T) {
	h.limits[1], h.given[1] = h.limits[0], h.given[0]
	_ = h.limiters[1].SetOverrides(h.given[1])
	if err := h.limiters[1].SetLimits(h.limits[1]); err != nil {
		h.fail(t, "the same limits: %v", err)
	}
	h.revised()
	h.reviseAll(t, 0)
	h.tell("calm: %d wait", len(h.waiting))
	for _, j := range h.waiting {
		j.deliveries = 0
	}
	for len(h.waiting) > 0 {
		next := 0
		for i, j := range h.waiting {
			if a, b := h.wait(j).Round(time.Microsecond), h.wait(h.waiting[next]).Round(time.Microsecond); a < b || a == b && j.id < h.waiting[next].id {
				next = i
			}
		}
		j := h.waiting[next]
		h.waiting = slices.Delete(h.waiting, next, next+1)
		h.pass(h.wait(j))
		if !h.attempt(t, j, 0) {
			h.again(j)
		}
		if j.deliveries > h.most*len(j.charges) {
			if h.blocks > 0 && h.changes > 0 { // how long a line lasts that was changed during a block is not judged here
				break
			}
			c := j.charges[j.stood]
			c.Shard = j.places[j.stood].Shard
			name, _, _ := strings.Cut(c.Bucket(), ":")
			b, _, _ := h.Bucket(t.Context(), name, c.Key)
			h.fail(t, "task %d still waits for %v after %d deliveries, for %v more: %+v", j.id, c, j.deliveries, h.wait(j), b)
		}
	}
}

// idle waits until every bucket says that it is full, and then every ledger is.
func (h *history) idle(t *rapid.T) {
	h.reviseAll(t, 0)
	full := h.clock
	each := func(visit func(name string, l reservations.Limit, b reservations.Bucket)) {
		for of := range h.tracks {
			if _, err := h.limiters[0].Limit(of.limit); err != nil || of.shard > 0 {
				continue
			}
			whole, _ := h.limiters[0].Limits().For(of.limit, of.key)
			for s := range max(1, whole.Shards) {
				c := reservations.Charge{Limit: of.limit, Key: of.key}
				if whole.Shards > 1 {
					c.Shard = s + 1
				}
				name, _, _ := strings.Cut(c.Bucket(), ":")
				b, _, _ := h.Bucket(t.Context(), name, c.Key)
				visit(c.Bucket(), part(asStored(whole, of.key)), b)
			}
		}
	}
	each(func(_ string, l reservations.Limit, b reservations.Bucket) {
		if at := b.FullAt(l); at.After(full) {
			full = at
		}
	})
	if h.blocks > 0 && h.changes > 0 && full.Sub(h.clock) >= reservations.MaxWait { // as above: such a line may be longer than what can be told
		return
	}
	h.pass(full.Sub(h.clock) + time.Microsecond)
	for _, near := range []float64{1e-6, 0} { // of the rate: rounding, of which the last window end leaves nothing
		h.tell("idle")
		h.reviseAll(t, 0)
		each(func(name string, l reservations.Limit, b reservations.Bucket) {
			for k, m := range l.Meters {
				for _, balance := range b.Meters[k].Ledgers {
					if balance < m.Cap()-near*m.Rate || balance > m.Cap() || b.Blocked != 0 || b.Meters[k].Name != m.Name {
						h.fail(t, "%s is not full at %v: %+v, capacity %v", name, h.clock, b, m.Cap())
					}
				}
			}
		})
		h.pass(time.Minute)
	}
}

// part is what one shard has of a limit.
func part(l reservations.Limit) reservations.Limit {
	n := float64(max(1, l.Shards))
	l.Meters = slices.Clone(l.Meters)
	for k := range l.Meters {
		l.Meters[k].Rate, l.Meters[k].Capacity = l.Meters[k].Rate/n, l.Meters[k].Capacity/n
	}
	return l
}
