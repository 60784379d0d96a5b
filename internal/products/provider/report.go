package provider

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/products/judge"
)

// Report is the counts of the provider so far.
type Report struct {
	// Requests are all judged requests: Accepted and Violations.
	Requests int `json:"requests"`

	// Accepted are the requests with room.
	Accepted int `json:"accepted"`

	// Violations are the requests that arrived when a meter lacked room. Their answer is 429.
	Violations int `json:"violations"`

	// Blocked are the requests that arrived during a block (see [Config.Block]). They are no violations, but each
	// comes from a worker that did not follow the block.
	Blocked int `json:"blocked"`

	// BlockedAt is when the block began with a refused request, and BlockedTask the task of that request. Both are
	// zero before.
	BlockedAt   time.Time `json:"blocked_at,omitzero"`
	BlockedTask string    `json:"blocked_task,omitempty"`

	// Hidden are the times of the refusals of [Config.Hidden].
	Hidden []time.Time `json:"hidden,omitempty"`

	// Troubles are the refusals of [Config.Trouble].
	Troubles []TroubleReport `json:"troubles,omitempty"`

	// Failed are the accepted requests with a 500, or without an answer, because of
	// [Config.Trouble].
	Failed int `json:"failed"`

	// InFlight are the accepted requests whose calls have not ended. Their estimates still count as used.
	InFlight int `json:"in_flight"`

	// FirstStart and LastStart are the arrivals of the first and the last accepted request. They are zero without
	// one.
	FirstStart time.Time `json:"first_start,omitzero"`
	LastStart  time.Time `json:"last_start,omitzero"`

	// LongestGapSeconds is the longest time between two consecutive accepted requests.
	LongestGapSeconds float64 `json:"longest_gap_seconds"`

	// Utilization is the utilization of the most used meter. It is zero if nothing is limited.
	Utilization float64 `json:"utilization"`

	// Meters has an entry for each limited meter: [MeterRequests], [MeterTokens], [MeterWindow], and "tenant:NAME".
	Meters map[string]MeterReport `json:"meters"`

	// Starts counts the accepted requests of each task whose requests name it: as headway_task or custom_id in their
	// metadata, or as the id of a tick.
	Starts map[string]int `json:"starts"`

	// Order lists the tasks of the accepted requests, in the order of their arrival.
	Order []string `json:"order"`

	// Times are the arrivals of these requests.
	Times []time.Time `json:"times"`

	// Ends are the ends of their calls. The end of a running call is zero.
	Ends []time.Time `json:"ends"`

	// Refusals are the first 20 violations.
	Refusals []Refusal `json:"refusals"`
}

// MeterReport is the counts of one meter.
type MeterReport struct {
	// Rate and Capacity are the limit, without slack.
	Rate     float64 `json:"rate"`
	Capacity float64 `json:"capacity"`

	// Estimated was charged on arrival, and Used is the real usage. Counted counts against the limit: Used, or
	// Estimated with [Config.KeepEstimate].
	Estimated float64 `json:"estimated"`
	Used      float64 `json:"used"`
	Counted   float64 `json:"counted"`

	// Utilization is Counted divided by the amount that the limit without slack allows from the first start to the
	// last: Capacity + Rate * seconds.
	Utilization float64 `json:"utilization"`

	// Windows are the busiest windows of some lengths.
	Windows []Window `json:"windows"`

	// FirstStart and LastStart are the arrivals of the first and the last request that the meter counted. They are
	// zero without one.
	FirstStart time.Time `json:"first_start,omitzero"`
	LastStart  time.Time `json:"last_start,omitzero"`
}

// Window is the busiest window of one length.
type Window struct {
	Seconds float64 `json:"seconds"`
	Most    float64 `json:"most"`    // counted for the requests that started within
	Allowed float64 `json:"allowed"` // Capacity + Rate * Seconds, without slack
}

// Refusal is one violation: the meter without room, the tokens that the request needed, and the tokens of the bucket.
type Refusal struct {
	At    time.Time `json:"at"`
	Task  string    `json:"task,omitempty"`
	Meter string    `json:"meter"`
	Need  float64   `json:"need"`
	Had   float64   `json:"had"`
}

func (a *account) report() Report {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := Report{
		Requests:   len(a.calls) + a.refused,
		Accepted:   len(a.calls),
		Violations: a.refused,
		Blocked:    a.ignored,
		BlockedAt:  a.blocked, BlockedTask: a.refusedOne,
		Hidden:   slices.Clone(a.hidden),
		Troubles: slices.Clone(a.troubles),
		Failed:   a.failed,
		InFlight: int(a.flight.Runs),
		Meters:   map[string]MeterReport{},
		Starts:   maps.Clone(a.starts),
		Refusals: append([]Refusal{}, a.refusals...),
	}
	calls := slices.Clone(a.calls)
	slices.SortStableFunc(calls, func(x, y *call) int { return x.at.Compare(y.at) })
	if len(calls) > 0 {
		r.FirstStart, r.LastStart = calls[0].at, calls[len(calls)-1].at
	}
	for i, c := range calls {
		r.LongestGapSeconds = max(r.LongestGapSeconds, c.at.Sub(calls[max(0, i-1)].at).Seconds())
		r.Order, r.Times, r.Ends = append(r.Order, c.task), append(r.Times, c.at), append(r.Ends, c.end)
	}
	if a.requests.Limited() {
		r.Meters[MeterRequests] = a.reportMeter(quotaOf(a.requests), calls, inRequests)
	}
	if a.tokens.Limited() {
		r.Meters[MeterTokens] = a.reportMeter(quotaOf(a.tokens), calls, inTokens)
	}
	if a.window.Limited() {
		r.Meters[MeterWindow] = a.reportWindow(calls)
	}
	for name, m := range a.tenants {
		own := slices.DeleteFunc(slices.Clone(calls), func(c *call) bool { return c.tenant != name })
		r.Meters[meterTenant+name] = a.reportMeter(quotaOf(m), own, inRequests)
	}
	for _, m := range r.Meters {
		r.Utilization = max(r.Utilization, m.Utilization)
	}
	return r
}

// inRequests and inTokens are what a call counts in a meter: the charge on arrival, and the real usage.
func inRequests(*call) (estimated, used float64) { return 1, 1 }

func inTokens(c *call) (estimated, used float64) { return c.estimate, c.used }

func quotaOf(b *judge.Bucket) Quota { return Quota{Rate: b.Rate, Capacity: b.Capacity} }

// reportMeter returns the report of one meter. The calls must be in the order of their arrival.
func (a *account) reportMeter(quota Quota, calls []*call, count func(*call) (estimated, used float64)) MeterReport {
	m := MeterReport{Rate: quota.Rate, Capacity: quota.Capacity}
	counted := make([]float64, len(calls))
	for i, c := range calls {
		estimated, used := count(c)
		m.Estimated += estimated
		m.Used += used
		if counted[i] = used; a.cfg.KeepEstimate {
			counted[i] = estimated
		}
		m.Counted += counted[i]
	}
	if len(calls) > 0 {
		m.FirstStart, m.LastStart = calls[0].at, calls[len(calls)-1].at
		m.Utilization = m.Counted / (quota.Capacity + quota.Rate*m.LastStart.Sub(m.FirstStart).Seconds())
	}
	for _, length := range []time.Duration{100 * time.Millisecond, time.Second, 10 * time.Second} {
		m.Windows = append(m.Windows, Window{
			Seconds: length.Seconds(),
			Most:    busiest(calls, counted, length),
			Allowed: quota.Capacity + quota.Rate*length.Seconds(),
		})
	}
	return m
}

// busiest returns the largest count within any window of that length, both ends included.
func busiest(calls []*call, counted []float64, length time.Duration) float64 {
	var most, sum float64
	first := 0
	for i, c := range calls {
		sum += counted[i]
		for c.at.Sub(calls[first].at) > length {
			sum -= counted[first]
			first++
		}
		most = max(most, sum)
	}
	return math.Round(most*1e6) / 1e6
}

// reportWindow sums up how much of the windows was used. Only the used part of the last window counts, because it may
// not have ended.
func (a *account) reportWindow(calls []*call) MeterReport {
	quota, number := a.cfg.Window, a.window.Number
	m := a.reportMeter(Quota{Rate: quota.Requests / quota.Period.Seconds(), Capacity: quota.Requests}, calls, inRequests)
	m.Windows = nil
	if len(calls) == 0 {
		return m
	}
	counts, most := map[int64]float64{}, 0.
	for _, c := range calls {
		counts[number(c.at)]++
		most = max(most, counts[number(c.at)])
	}
	last := number(m.LastStart)
	whole, used := float64(last-number(m.FirstStart)), m.Counted-counts[last]
	if whole == 0 {
		whole, used = 1, m.Counted
	}
	m.Utilization = used / (whole * quota.Requests)
	m.Windows = []Window{{Seconds: quota.Period.Seconds(), Most: most, Allowed: quota.Requests}}
	return m
}
