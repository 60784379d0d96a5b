package provider

import (
	"sync"
	"time"
)

// The names of the meters, as they stand in reports and error bodies.
const (
	MeterRequests = "requests"
	MeterTokens   = "tokens"
)

// refusalsKept bounds the list of refusals in a report.
const refusalsKept = 20

// account is what the provider remembers: its meters and every call it accepted.
type account struct {
	mu       sync.Mutex // guards everything below
	requests *meter
	tokens   *meter
	keep     bool
	calls    []*call
	starts   map[string]int
	refusals []Refusal
	refused  int
	failed   int
	inFlight int
}

// call is an accepted request.
type call struct {
	at       time.Time
	number   int // 1 for the first one accepted
	estimate float64
	used     float64 // the estimate until the call has ended
}

func newAccount(cfg Config) *account {
	now := cfg.NowFunc()
	return &account{
		requests: newMeter(cfg.Requests, cfg.Slack, now),
		tokens:   newMeter(cfg.Tokens, cfg.Slack, now),
		keep:     cfg.KeepEstimate,
		starts:   map[string]int{},
	}
}

// standing is what the rate limit headers tell.
type standing struct {
	requests, tokens meter
}

// verdict is the answer to an arrival: a call, or the meter that lacked room and when there will be room.
type verdict struct {
	call       *call // nil for a refusal
	meter      string
	need       float64
	limit      float64
	fits       bool // the meter could ever hold need
	retryAfter time.Duration
	standing   standing
}

// arrive judges one request: it charges all meters, or none and counts one violation.
func (a *account) arrive(now time.Time, task string, estimate float64) verdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests.fill(now)
	a.tokens.fill(now)
	if !a.requests.hasRoom(1) || !a.tokens.hasRoom(estimate) {
		return a.refuse(now, task, estimate)
	}
	a.requests.add(-1)
	a.tokens.add(-estimate)
	if task != "" {
		a.starts[task]++
	}
	a.inFlight++
	c := &call{at: now, number: len(a.calls) + 1, estimate: estimate, used: estimate}
	a.calls = append(a.calls, c)
	return verdict{call: c, standing: a.standing()}
}

// refuse requires that a.mu is held.
func (a *account) refuse(now time.Time, task string, estimate float64) verdict {
	name, m, need := MeterRequests, a.requests, 1.0
	if m.hasRoom(1) {
		name, m, need = MeterTokens, a.tokens, estimate
	}
	a.refused++
	if len(a.refusals) < refusalsKept {
		a.refusals = append(a.refusals, Refusal{At: now, Task: task, Meter: name, Need: need, Had: m.level})
	}
	return verdict{
		meter:      name,
		need:       need,
		limit:      m.quota.Capacity,
		fits:       need <= m.full,
		retryAfter: max(a.requests.wait(1), a.tokens.wait(estimate)),
		standing:   a.standing(),
	}
}

// finish ends a call that used so many tokens, and corrects what was counted for it.
func (a *account) finish(now time.Time, c *call, used float64, failed bool) standing {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests.fill(now)
	a.tokens.fill(now)
	if !a.keep {
		a.tokens.add(c.estimate - used)
	}
	c.used = used
	a.inFlight--
	if failed {
		a.failed++
	}
	return a.standing()
}

// standing requires that a.mu is held.
func (a *account) standing() standing {
	return standing{requests: *a.requests, tokens: *a.tokens}
}
