package provider

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/headway-go/headway/internal/products/judge"
)

// The names of the meters in reports and error bodies. The meter of a tenant is "tenant:" and the tenant's name.
const (
	MeterRequests = "requests"
	MeterTokens   = "tokens"
	MeterWindow   = "window"
	MeterInFlight = "in_flight"
	meterTenant   = "tenant:"
)

// refusalsKept bounds the list of refusals in a report.
const refusalsKept = 20

// account is the state of the provider: its meters and every accepted call.
type account struct {
	cfg Config

	mu       sync.Mutex // guards the fields below
	requests *judge.Bucket
	tokens   *judge.Bucket
	window   *judge.Window
	tenants  map[string]*judge.Bucket
	flight   *judge.Flight
	blocked  time.Time // when the block began with a refusal; zero before
	// refusedOne is the task of the request that was refused at blocked.
	refusedOne string
	random     *rand.Rand
	troubles   []TroubleReport
	hidden     []time.Time // the refusals of Config.Hidden
	calls      []*call
	starts     map[string]int
	refusals   []Refusal
	refused    int
	ignored    int // requests that arrived during the block
	failed     int
}

// call is an accepted request.
type call struct {
	at       time.Time
	task     string
	tenant   string
	estimate float64
	used     float64   // the estimate while the call runs
	end      time.Time // zero while the call runs
	fate     fate
}

func newAccount(cfg Config) *account {
	now := time.Now()
	a := &account{
		cfg:      cfg,
		requests: newBucket(cfg.Requests, cfg.Slack, now),
		tokens:   newBucket(cfg.Tokens, cfg.Slack, now),
		window:   judge.NewWindow(cfg.Window.Requests, cfg.Window.Period, 0, cfg.Slack),
		flight:   &judge.Flight{Most: float64(cfg.InFlight)},
		tenants:  map[string]*judge.Bucket{},
		random:   rand.New(rand.NewPCG(0, 1)), //nolint:gosec // tests repeat it
		starts:   map[string]int{},
	}
	for name, quota := range cfg.Tenants {
		a.tenants[name] = newBucket(quota, cfg.Slack, now)
	}
	return a
}

// standing is the content of the rate limit headers.
type standing struct {
	requests, tokens judge.Bucket
	hidden           bool
}

// verdict is the answer to an arrival: a call, or the meter without room and when there will be room.
type verdict struct {
	call       *call // nil for a refusal
	meter      string
	need       float64
	limit      float64
	fits       bool // whether the meter could ever hold need
	retryAfter time.Duration
	standing   standing
}

// counter is one of the meters that judge a request.
type counter struct {
	name string
	need float64
	judge.Meter
}

func newBucket(q Quota, slack time.Duration, now time.Time) *judge.Bucket {
	return judge.NewBucket(q.Rate, q.Capacity, slack, now)
}

// counters returns all meters and windows that judge the request, filled up to now. It requires that a.mu is held.
func (a *account) counters(now time.Time, j job) []counter {
	all := []counter{
		{MeterRequests, 1, a.requests},
		{MeterTokens, j.estimate, a.tokens},
		{MeterWindow, 1, a.window},
		{MeterInFlight, 1, a.flight},
	}
	if m := a.tenants[j.tenant]; m != nil {
		all = append(all, counter{meterTenant + j.tenant, 1, m})
	}
	for _, c := range all {
		c.Fill(now)
	}
	if h := a.cfg.Hidden; len(a.calls) > 0 && h.After > 0 {
		a.requests.Rate = a.cfg.Requests.Rate
		if since := now.Sub(a.calls[0].at); since >= h.After && since < h.After+h.For {
			a.requests.Rate /= 2
		}
	}
	return all
}

// arrive judges one request. It charges all meters, or charges none and counts one violation.
func (a *account) arrive(now time.Time, j job) verdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.counters(now, j)
	if a.blocked.IsZero() && a.cfg.Block.Number == len(a.calls)+1 {
		a.blocked, a.refusedOne = now, j.task
		return a.asksToWait(a.cfg.Block.For)
	}
	if passed := now.Sub(a.blocked); !a.blocked.IsZero() && passed >= time.Second && passed < a.cfg.Block.For {
		a.ignored++
	}
	for _, c := range all {
		if !c.HasRoom(c.need) {
			return a.refuse(now, j, c, all)
		}
	}
	end := a.fate(now)
	if end == refused {
		return a.asksToWait(a.cfg.Trouble.For)
	}
	for _, c := range all {
		c.Add(-c.need)
	}
	if j.task != "" {
		a.starts[j.task]++
	}
	c := &call{at: now, task: j.task, tenant: j.tenant, estimate: j.estimate, used: j.estimate, fate: end}
	a.calls = append(a.calls, c)
	return verdict{call: c, standing: a.standing()}
}

// asksToWait is a refusal that is no violation. It requires that a.mu is held.
func (a *account) asksToWait(d time.Duration) verdict {
	return verdict{meter: MeterRequests, need: 1, fits: true, retryAfter: d, standing: a.standing()}
}

// refuse requires that a.mu is held.
func (a *account) refuse(now time.Time, j job, short counter, all []counter) verdict {
	capacity, level, largest := short.Limits()
	if a.cfg.Hidden.After > 0 {
		a.hidden = append(a.hidden, now)
	} else if a.refused++; len(a.refusals) < refusalsKept {
		a.refusals = append(a.refusals, Refusal{At: now, Task: j.task, Meter: short.name, Need: short.need, Had: level})
	}
	v := verdict{
		meter: short.name, need: short.need, limit: capacity, fits: short.need <= largest,
		standing: a.standing(),
	}
	for _, c := range all {
		v.retryAfter = max(v.retryAfter, c.Wait(c.need))
	}
	return v
}

// finish ends a call, and corrects its count to the used tokens.
func (a *account) finish(now time.Time, c *call, used float64, failed bool) standing {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests.Fill(now)
	a.tokens.Fill(now)
	if !a.cfg.KeepEstimate {
		a.tokens.Add(c.estimate - used)
	}
	c.used = used
	a.flight.Add(1)
	c.end = now
	if failed {
		a.failed++
	}
	return a.standing()
}

// standing requires that a.mu is held.
func (a *account) standing() standing {
	return standing{requests: *a.requests, tokens: *a.tokens, hidden: a.cfg.Hidden.After > 0}
}
