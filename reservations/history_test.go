package reservations_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/test/seeded"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
)

const (
	historiesMany = 2000
	historiesFew  = 200
	historySteps  = 80
)

// Random limits, charges, shards, outages, crashes, blocks, settlements, lost answers, changed limits and clocks that
// run back, through two Limiters: in no window of any meter starts more than the judge allows, all waiting tasks start
// in the end, and all buckets fill.
func TestHistoriesKeepTheLimits(t *testing.T) {
	t.Parallel()
	histories := historiesMany
	if testing.Short() {
		histories = historiesFew
	}
	for seed := range seeded.Range(t, histories) {
		h := newHistory(seed)
		h.live(t.Context())
		if h.fault == "" {
			continue
		}
		again := newHistory(seed)
		again.verbose = true
		again.live(t.Context())
		t.Fatalf("history %d: %s\n%s", seed, h.fault, strings.Join(again.log, "\n"))
	}
}

// history is a random life of a few limits over virtual time. Every call to the store goes through Apply, where the
// judges look on.
type history struct {
	*memstore.Store
	*rand.Rand

	clock    time.Time
	limiters [2]*reservations.Limiter
	limits   [2][]reservations.Limit // as they are configured
	waiting  []*job
	running  []*ended
	done     []*ended // settled; the buckets remember them
	jobs     int
	verbose  bool
	log      []string

	mu      sync.Mutex // guards what is below: shards are asked side by side
	asking  int        // which of the limiters asks
	lose    bool       // the next answer
	back    map[string]float64
	passed  float64 // seconds that the clock ran forwards
	buckets map[string]*watched
	fault   string
}

// watched is what the history knows of a bucket.
type watched struct {
	judges  map[string]*judge
	limit   bucket.Limit // of the last request
	spans   []span       // of time since the last request
	blocked float64      // in passed: nothing that is asked for now starts before
}

type span struct {
	from time.Time
	d    time.Duration
}

// job is a task: what it takes, and holds.
type job struct {
	id         int
	charges    []reservations.Charge
	deliveries int
}

// ended is a start that was used.
type ended struct {
	id      string
	charges []reservations.Charge
	settled []bool // by charge
	at      float64
}

func newHistory(seed uint64) *history {
	h := &history{Rand: rand.New(rand.NewPCG(seed, 7)), clock: virtualStart, buckets: map[string]*watched{}}
	h.clock = virtualStart.Add(time.Duration(h.IntN(60000)) * time.Millisecond)
	h.Store = memstore.NewAt(func() time.Time { return h.clock })
	first := h.drawLimits()
	for i := range h.limiters {
		var err error
		if h.limiters[i], err = reservations.New(h, first, reservations.Config{}); err != nil {
			panic(err)
		}
		h.limits[i] = first
	}
	return h
}

func (h *history) note(format string, args ...any) {
	if h.verbose && (h.fault == "" || len(h.log) == 0 || !strings.HasPrefix(h.log[len(h.log)-1], "FAULT")) {
		h.log = append(h.log, h.clock.Format("15:04:05.000000000 ")+fmt.Sprintf(format, args...))
	}
}

func (h *history) wrong(format string, args ...any) {
	if h.fault == "" {
		h.fault = fmt.Sprintf(format, args...)
	}
}

// Fatalf is for wellFormed.
func (h *history) Fatalf(format string, args ...any) { h.wrong(format, args...) }

func (h *history) live(ctx context.Context) {
	if h.verbose {
		for _, l := range h.limits[0] {
			h.note("limit %+v", l)
		}
	}
	steps := []func(context.Context){
		h.arrives, h.arrives, h.burst, h.returns, h.returns, h.returns, h.early, h.twice, h.forgets, h.crash,
		h.loses, h.reserves, h.releases, h.allows, h.settles, h.settles, h.settles, h.settlesAgain, h.blocks, h.unblocks,
		h.syncs, h.resets, h.changes,
		h.overrides, h.refreshes, h.waits, h.waits, h.runsBack,
	}
	for range historySteps {
		if steps[h.IntN(len(steps))](ctx); h.fault != "" {
			h.log = append(h.log, "FAULT "+h.fault)
			return
		}
	}
	h.calm(ctx)
	h.idle(ctx)
}

// pass moves the clock forwards.
func (h *history) pass(d time.Duration) {
	if d <= 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.buckets {
		w.spans = append(w.spans, span{h.clock, d})
	}
	h.clock = h.clock.Add(d)
	h.passed += d.Seconds()
}

func (h *history) Update(ctx context.Context, _, _ string, change reservations.Change) error {
	return bucket.Serve(ctx, change, h.Apply, bucket.Loader(h.Store))
}

// Apply is the store's, under the eyes of the judges.
func (h *history) Apply(
	ctx context.Context, l bucket.Limit, key string, requests []bucket.Request,
) ([]bucket.Answer, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	outcomes, err := bucket.Apply(ctx, h.Store, l, key, requests)
	for _, o := range outcomes {
		wellFormed(h, l, o.Bucket)
	}
	h.judge(l, key, requests, outcomes)
	if h.lose {
		h.lose = false
		return nil, &bucket.UnavailableError{
			Bucket: l.Name, Applied: bucket.AppliedMaybe, Err: errors.New("lost"),
		}
	}
	return outcomes, err
}

// watch is the bucket of a name, with the judges filled by the limits of the last request and of this one.
func (h *history) watch(l bucket.Limit, key string) *watched {
	name := bucket.Name(l.Name, key)
	w := h.buckets[name]
	if w == nil {
		w = &watched{judges: map[string]*judge{}, limit: l}
		h.buckets[name] = w
	}
	for _, m := range l.Meters {
		if w.judges[m.Name] == nil {
			w.judges[m.Name] = &judge{}
		}
	}
	for name, j := range w.judges {
		j.force = j.force[:0]
		for _, limit := range []bucket.Limit{w.limit, l} {
			for _, m := range limit.Meters {
				if m.Name == name {
					j.force = append(j.force, m)
				}
			}
		}
		if len(j.force) == 0 { // the bucket keeps it as it was asked for last
			j.force = append(j.force, j.last)
		}
		j.last = j.force[len(j.force)-1]
		for _, s := range w.spans {
			j.pass(s.from, s.d)
		}
	}
	w.spans, w.limit = nil, l
	return w
}

func (h *history) judge(
	l bucket.Limit, key string, requests []bucket.Request, outcomes []bucket.Answer,
) {
	w := h.watch(l, key)
	h.isPart(l, key)
	for i, r := range requests {
		o := outcomes[i]
		switch r.Op {
		case bucket.OpSettle:
			for meter, n := range h.back {
				if j := w.judges[meter]; j != nil {
					j.corrected(h.passed, -n)
				}
			}
			h.back = nil
		case bucket.OpBlock:
			w.blocked = max(w.blocked, h.passed+min(r.For, l.MaxBlock).Seconds())
		case bucket.OpRefuse, bucket.OpAnswered: // no step of a history
		case bucket.OpUnblock:
			w.blocked = 0
		case bucket.OpStart, bucket.OpAllow:
			if !o.Started() || r.Dry {
				continue
			}
			if at := h.passed + o.Hold.Seconds(); at < w.blocked-1e-6 {
				h.wrong("%+v starts at %v s, blocked until %v s", r, at, w.blocked)
			}
			for k, m := range l.Meters {
				if fault := w.judges[m.Name].begins(h.passed, o.At, o.Hold, r.Tokens[k], m.Filling.Capacity); fault != "" {
					h.wrong("%s of %s:%s: %s", m.Name, l.Name, key, fault)
				}
			}
		case bucket.OpReserve, bucket.OpRelease, bucket.OpRenew, bucket.OpSync,
			bucket.OpRefresh:
		}
	}
}

// isPart: the shards' limits add up to the limit.
func (h *history) isPart(l bucket.Limit, key string) {
	c, _ := reservations.ParseBucket(l.Name)
	whole, err := inside.Of(h.limiters[h.asking]).Limits().For(c.Limit, key)
	if err != nil {
		h.wrong("asked for limit %q: %v", l.Name, err)
		return
	}
	n := float64(max(1, whole.Shards))
	for k, m := range bucket.Rules(whole).Meters {
		w, m := m.Filling, l.Meters[k].Filling
		if math.Abs(m.Rate*n-w.Rate) > 1e-6 || math.Abs(m.Capacity*n-w.Capacity) > 1e-6 {
			h.wrong("%d shards of %+v have %+v", whole.Shards, w, m)
		}
	}
}

// knows is the charge without the meters that the limiter's limit lacks, for a shard that is drawn where it has none.
func (h *history) knows(c reservations.Charge) (reservations.Charge, bool) {
	l, err := inside.Of(h.limiters[h.asking]).Limits().Configured(c.Limit)
	if err != nil {
		return c, false
	}
	tokens := reservations.Tokens{}
	for _, m := range l.Meters {
		if n, ok := c.Tokens[m.Name]; ok {
			tokens[m.Name] = n
		}
	}
	if c.Tokens = tokens; l.Shards > 1 && c.Shard == 0 {
		c.Shard = 1 + h.IntN(l.Shards)
	}
	return c, true
}

// attempt delivers a task, as a worker does: it starts in all limits in order, and where one does not let it start, the
// starts before are given back. It says whether the task is done, or can never start.
func (h *history) attempt(ctx context.Context, j *job) bool {
	j.deliveries++
	limiter := h.limiters[h.asking]
	var granted []reservations.Charge
	undo := func() {
		for _, c := range granted {
			h.back = c.Tokens
			_, err := limiter.Cancel(ctx, c, fmt.Sprintf("%d/%d", j.id, j.deliveries))
			h.back = nil
			h.note("%d gives %v back: %v", h.asking, c, err)
		}
	}
	at := h.passed
	for i := range j.charges {
		c, ok := h.knows(j.charges[i])
		if !ok {
			undo()
			return true
		}
		o, err := limiter.Ask(ctx, c)
		h.note("%d starts task %d %+v: %s, hold %v, wait %v, %v", h.asking, j.id, c, o.State, o.Hold, o.Wait(), err)
		switch {
		case reservations.IsPermanent(err):
			undo()
			return true
		case err != nil:
			undo()
			return false
		case !o.Started():
			j.charges[i].Shard, j.charges[i].Held = o.Charge.Shard, o.Charge.Held
			undo()
			return false
		}
		granted = append(granted, o.Charge)
		if at = h.passed + o.Hold.Seconds(); i+1 < len(j.charges) {
			h.pass(o.Hold)
		}
	}
	h.running = append(h.running, &ended{fmt.Sprintf("%d/%d", j.id, j.deliveries), granted, make([]bool,
		len(granted)), at})
	return true
}

// calm ends the disturbances: every waiting task is promoted, in order, at the time that it was given, and starts.
func (h *history) calm(ctx context.Context) {
	h.asking = 0
	h.note("calm: %d wait", len(h.waiting))
	for _, j := range h.waiting {
		for n := 0; !h.attempt(ctx, j); n++ {
			longest := time.Duration(0)
			for i := range j.charges {
				c, _ := h.knows(j.charges[i])
				asked := bucket.Request{Op: bucket.OpStart, Promoted: true, Dry: true}
				limit, err := h.limiters[0].LimitFor(ctx, c)
				if err != nil {
					continue
				}
				for _, m := range limit.Meters {
					asked.Tokens = append(asked.Tokens, c.Tokens[m.Name])
				}
				b, now, _ := bucket.Read(ctx, h, limit.Name, c.Key)
				_, o := bucket.Step(b, bucket.Rules(limit), now, asked)
				longest = max(longest, o.RetryAt.Sub(h.clock)) // the bucket's clock may be ahead
			}
			if n > 3+2*len(j.charges) {
				h.wrong("task %d still waits after %d deliveries", j.id, n)
			}
			if h.fault != "" {
				h.log = append(h.log, "FAULT "+h.fault)
				return
			}
			h.pass(longest)
		}
	}
}

// idle waits until every bucket says that it is full, and then every balance is.
func (h *history) idle(ctx context.Context) {
	full := h.clock
	for _, b := range h.refreshed(ctx) {
		if at := b.FullAt(); at.After(full) {
			full = at
		}
	}
	h.pass(full.Sub(h.clock) + time.Microsecond)
	for name, b := range h.refreshed(ctx) {
		for _, s := range b.Meters {
			if s.Reserved < s.Filling.Capacity-1e-6 || b.Blocked.After(h.clock) {
				h.wrong("%s is not full at %v: %+v", name, h.clock, b)
			}
		}
	}
}

// refreshed are the buckets of all limits and keys as they are now. What is stored may be older.
func (h *history) refreshed(ctx context.Context) map[string]bucket.Bucket {
	all := map[string]bucket.Bucket{}
	for _, l := range h.limits[0] {
		for _, key := range []string{"", "k"} {
			outcomes, err := h.limiters[0].Refresh(ctx, reservations.Charge{Limit: l.Name, Key: key})
			if err != nil {
				h.wrong("refresh: %v", err)
			}
			for _, o := range outcomes {
				all[o.Charge.Bucket().String()] = o.Bucket
			}
		}
	}
	return all
}

// removed takes one of the waiting tasks out.
func (h *history) removed() *job {
	if len(h.waiting) == 0 {
		return nil
	}
	i := h.IntN(len(h.waiting))
	j := h.waiting[i]
	h.waiting = slices.Delete(h.waiting, i, i+1)
	return j
}
