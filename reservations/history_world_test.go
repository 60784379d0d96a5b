package reservations_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"pgregory.net/rapid"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
)

// history is a random life of a few limits over virtual time, through two Limiters that may be configured differently, as in a rolling
// deployment. Every call to the store goes through Apply, where the judge looks on.
type history struct {
	*memstore.Store

	clock    time.Time
	limiters [2]*reservations.Limiter
	limits   [2][]reservations.Limit // as they are configured
	given    [2][]reservations.Override
	asking   int // which of the limiters does
	lose     bool
	back     reservations.Tokens // what the present call may give back
	waiting  []*job
	running  []*run
	done     []*run // settled: to be settled once more
	jobs     int
	blocks   int
	changes  int  // of limits
	moves    bool // changes move windows, and leave their sizes; else the other way round
	most     int  // deliveries for each limit, when all is calm
	log      []string

	mu      sync.Mutex // guards what is below: shards are asked side by side
	passed  float64    // seconds that the clock ran forwards
	tracks  map[trackOf]*track
	blocked map[string]float64 // by the store's bucket: until when, in passed
	fault   string
	told    bool // the fault
}

// job is a task: what it takes, and what it was last given for each of its charges.
type job struct {
	id         int
	charges    []reservations.Charge
	places     []reservations.Place
	stood      int // the charge that it waits for
	deliveries int
}

// run is a start that was used.
type run struct {
	id      string
	charges []reservations.Charge
	settled map[int]bool // by the charge
	at      float64      // when its hold is over, in seconds that passed
}

func newHistory(t *rapid.T) *history {
	h := &history{
		clock: virtualStart.Add(time.Duration(rapid.IntRange(0, 60000).Draw(t, "begins")) * time.Millisecond),
		most:  deliveriesAfter, tracks: map[trackOf]*track{}, blocked: map[string]float64{},
	}
	h.moves = rapid.Bool().Draw(t, "windows move")
	h.Store = memstore.New(func() time.Time { return h.clock })
	first := drawLimits(t)
	for i := range h.limiters {
		var err error
		if h.limiters[i], err = reservations.New(h, first, reservations.Config{}); err != nil {
			t.Fatalf("limits %+v: %v", first, err)
		}
		h.limits[i] = first
	}
	for _, l := range first {
		h.tell("limit %+v", l)
	}
	return h
}

func (h *history) tell(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fault != "" && h.told {
		return
	}
	h.told = h.fault != "" // the call that is wrong is the last that is told
	h.log = append(h.log, h.clock.Format("15:04:05.000000  ")+fmt.Sprintf(format, args...))
}

// check ends the test where the judge found a fault.
func (h *history) check(t *rapid.T) {
	h.mu.Lock()
	fault := h.fault
	h.mu.Unlock()
	if fault != "" {
		h.fail(t, "%s", fault)
	}
}

func (h *history) fail(t *rapid.T, format string, args ...any) {
	t.Fatalf("%s\nhistory:\n%s", fmt.Sprintf(format, args...), strings.Join(h.log, "\n"))
}

// Apply is the store's, and tells the judge.
func (h *history) Apply(ctx context.Context, l reservations.Limit, key string, requests []reservations.Request) ([]reservations.Outcome, error) {
	before, _, _ := h.Bucket(ctx, l.Name, key)
	outcomes, err := h.Store.Apply(ctx, l, key, requests)
	after, _, _ := h.Bucket(ctx, l.Name, key)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.judge(l, key, requests, outcomes, before, after) //nolint:contextcheck // the judge has a store of its own
	if h.lose {
		h.lose = false
		return nil, &reservations.UnavailableError{Bucket: reservations.BucketName(l.Name, key), Applied: reservations.AppliedMaybe, Err: errors.New("lost")}
	}
	return outcomes, err
}

// pass moves the clock forwards, and fills what the judge allows.
func (h *history) pass(d time.Duration) {
	if d <= 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, tr := range h.tracks {
		tr.fill(h.clock, d)
	}
	h.clock = h.clock.Add(d)
	h.passed += d.Seconds()
}

// attempt delivers a job, as the worker does: all limits are asked in order, and where one does not let it start, those before it are given
// back. It says whether the job is done, or can never start.
func (h *history) attempt(t *rapid.T, j *job, as int) bool {
	h.asking = as
	j.deliveries++
	limiter := h.limiters[as]
	outcomes := make([]reservations.Outcome, len(j.charges))
	var asked []reservations.Charge
	for i := range j.charges {
		c, ok := h.known(as, j.charges[i])
		if !ok {
			return h.giveUp(t, asked)
		}
		if c.Shard = j.places[i].Shard; c.Shard == 0 {
			c.Shard = h.shard(t, c.Limit)
		}
		o, err := limiter.Begin(t.Context(), c, j.places[i])
		h.tell("%d begins task %d %v as %q: %s, hold %v, wait %v, %v", as, j.id, c, j.places[i].State, o.State, o.Hold, o.Wait(), err)
		switch {
		case reservations.IsPermanent(err):
			return h.giveUp(t, asked)
		case err != nil:
			h.yield(t, asked)
			return false
		case !o.Started():
			j.places[i], j.stood = o.Place(), i
			h.yield(t, asked)
			for k := range asked {
				j.places[k] = unused(outcomes[k])
			}
			return false
		}
		c.Shard = o.Shard
		outcomes[i], asked = o, append(asked, c)
		if i+1 < len(j.charges) {
			h.pass(o.Hold)
		}
	}
	at := h.passed + outcomes[len(outcomes)-1].Hold.Seconds()
	h.running = append(h.running, &run{id: fmt.Sprintf("%d/%d", j.id, j.deliveries), charges: asked, settled: map[int]bool{}, at: at})
	return true
}

// unused is the place of a start that was not used, as the worker keeps it.
func unused(o reservations.Outcome) reservations.Place {
	o.State, o.Due = reservations.StateLate, o.At.Add(o.Hold+o.Shift)
	return o.Place()
}

func (h *history) giveUp(t *rapid.T, asked []reservations.Charge) bool {
	h.yield(t, asked)
	return true
}

// yield gives starts back that were not used.
func (h *history) yield(t *rapid.T, asked []reservations.Charge) {
	for _, c := range asked {
		h.back = c.Tokens
		o, err := h.limiters[h.asking].Yield(t.Context(), c)
		h.tell("%d yields %v: %s %v", h.asking, c, o.State, err)
		h.back = nil
	}
}

// known is the charge without the meters that the limiter's limit lacks.
func (h *history) known(as int, c reservations.Charge) (reservations.Charge, bool) {
	l, err := h.limiters[as].Limits().Configured(c.Limit)
	if err != nil {
		return c, false
	}
	tokens := reservations.Tokens{}
	for _, m := range l.Meters {
		if n, ok := c.Tokens[m.Name]; ok {
			tokens[m.Name] = n
		}
	}
	c.Tokens = tokens
	return c, true
}

// shard draws one: left to itself, the limiter would choose by chance and by the real clock, and no history could be repeated.
func (h *history) shard(t *rapid.T, limit string) int {
	for _, l := range h.limits[0] {
		if l.Name == limit && l.Shards > 1 {
			return rapid.IntRange(1, l.Shards).Draw(t, "shard")
		}
	}
	return 0
}

// again puts a job back among those who wait.
func (h *history) again(j *job) { h.waiting = append(h.waiting, j) }

// who removes one of those who wait at random.
func (h *history) who(t *rapid.T) *job {
	if len(h.waiting) == 0 {
		return nil
	}
	i := rapid.IntRange(0, len(h.waiting)-1).Draw(t, "who")
	j := h.waiting[i]
	h.waiting = slices.Delete(h.waiting, i, i+1)
	return j
}

// wait is how long a job is still to wait, by the clock of the line that it stands in.
func (h *history) wait(j *job) time.Duration {
	p, c := j.places[j.stood], j.charges[j.stood]
	if p.Due.IsZero() {
		return 0
	}
	c.Shard = p.Shard
	name, _, _ := strings.Cut(c.Bucket(), ":")
	b, _, _ := h.Bucket(context.Background(), name, c.Key)
	speed := b.Speed
	if speed == 0 {
		speed, b.At = 1, h.clock
	}
	ahead := b.Shift + h.clock.Sub(b.At).Seconds()*(speed-1)
	return max(0, time.Duration((p.Due.Sub(h.clock).Seconds()-ahead)/speed*float64(time.Second)))
}
