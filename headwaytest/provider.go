package headwaytest

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/products/judge"
	"github.com/headway-go/headway/reservations"
)

// Provider is the API that tasks call, and how it behaves. The zero value answers each call at once.
type Provider struct {
	// Meters are the limits that the API enforces exactly, with a bucket for each key. Windows leave nothing to the next
	// one. Name what the provider documents. Defaults to the meters of the fleet's limit of the provider's name: then the
	// test can't see that this limit is too high.
	Meters []reservations.Meter
	// Slack makes each token bucket larger, by what refills in that time: a grant may travel faster than the one before
	// it. Defaults to three times the largest delay of [Network] (the answer of a bucket, and a round trip before the
	// call). With [BucketsInRedis] it is two microseconds more, because the clock of Redis counts in microseconds. So it
	// is none without these options. Negative means none.
	Slack time.Duration
	// Latency draws the duration of a call. Defaults to none.
	Latency func(r *rand.Rand) time.Duration
	// Refuse is the share of the calls, from 0 to 1, that are refused with a 429 although there is room, as overloaded
	// providers do. RetryAfter is the time that these refusals name; zero names none.
	Refuse     float64
	RetryAfter time.Duration
	// NoRetryAfter says that no refusal names a time, also where a meter has no room.
	NoRetryAfter bool
	// Fail is the share of the calls that end with a 503, Drop the share whose answer is lost after the call has run.
	Fail, Drop float64
	// Cost says what a request to [API.Client] costs. Defaults to one token of each meter.
	Cost func(r *http.Request) Call
	// Handler answers the requests that succeed. Defaults to an empty JSON object.
	Handler http.Handler
}

// Between draws from a uniform distribution. It panics if least is negative or above most.
func Between(least, most time.Duration) func(r *rand.Rand) time.Duration {
	if least < 0 || most < least {
		panic(fmt.Sprintf("headwaytest: Between: least is %v and most %v: must be from zero to most", least, most))
	}
	return func(r *rand.Rand) time.Duration {
		return least + time.Duration(r.Int64N(int64(most-least)+1))
	}
}

// Call is one call of a provider.
type Call struct {
	// Key is the key of the bucket that the provider counts the call in.
	Key string
	// Tokens is what the call costs on arrival, by meter. A meter that is not named costs one.
	Tokens reservations.Tokens
	// Used is what the call really used, by meter: the provider corrects its count when the call ends. A meter that is not
	// named used its Tokens.
	Used reservations.Tokens
}

// goneAfter is how long a provider goes on with a call whose client is gone.
const goneAfter = 3 * time.Second

// ignoredAfter is how soon the whole fleet has to heed a refusal that names a time.
const ignoredAfter = time.Second

// violationsKept bounds the list of violations in a report.
const violationsKept = 20

// API is a provider of a fleet. It is safe for concurrent use.
type API struct {
	fleet *Fleet
	name  string
	Provider
	copied bool // Meters are the ones of the fleet's own limit

	mu         sync.Mutex // guards what is below
	random     *rand.Rand
	accounts   map[string]*account // by key
	calls      []time.Time         // accepted ones
	refused    int
	failed     int
	ignored    int
	violations []Violation
	count      int             // of violations
	wrong      map[string]bool // the texts of wrong calls, which fail the test once
}

// account is what a provider counts for one key.
type account struct {
	meters       []judge.Meter
	use          []use // by meter
	wanted       bool  // a task waits for this bucket
	filled       time.Time
	blockedAt    time.Time
	blockedUntil time.Time
}

// use is what there was of a meter while tasks waited for it and nothing was blocked, and how much of it went unused.
type use struct{ room, unused float64 }

// Violation is a call that arrived when a meter had no room.
type Violation struct {
	At     time.Duration // since the fleet began
	Task   string        // the ID of the task that called; empty if the call has no context of a task
	Worker string        // the worker that called, as "worker 0"; empty for a program outside of the fleet
	Key    string
	Meter  string
	Need   float64
	Had    float64
	// Limit is the fleet's own limit then, Enforced the one of the provider.
	Limit, Enforced string
}

func (v Violation) String() string {
	by := v.Worker
	if by == "" {
		by = "a program outside of the fleet"
	}
	text := fmt.Sprintf("at %v: %s", v.At, by)
	if v.Task != "" {
		text += ", task " + v.Task
	}
	text += fmt.Sprintf(": %s needed %g, had %.7g", v.Meter, v.Need, v.Had)
	if v.Key != "" {
		text += fmt.Sprintf(" of key %q", v.Key)
	}
	return text + fmt.Sprintf("; your limit %s, the provider's %s", v.Limit, v.Enforced)
}

// limitText describes a meter of the fleet's own limit.
func (a *API) limitText(meter string) string {
	own := a.fleet.limit(a.name)
	if own == nil {
		return "none"
	}
	for _, m := range own.Meters {
		if m.Name == meter {
			return register.MeterLine(m)
		}
	}
	return "none of this meter"
}

// Provider adds an API to the fleet. Its name is that of the limit that tasks charge for it. A second call with one
// name
// fails the test.
func (f *Fleet) Provider(name string, p Provider) *API {
	f.t.Helper()
	own := f.limit(name)
	f.mu.Lock()
	exists := f.apis[name] != nil
	f.mu.Unlock()
	copied := p.Meters == nil
	problem := ""
	switch {
	case exists:
		problem = "exists already"
	case !copied:
		problem = metersProblem(name, p.Meters)
	case own == nil:
		problem = fmt.Sprintf("Meters is nil, and the fleet has no limit %q: name the provider's meters", name)
	case slices.ContainsFunc(own.Meters, func(m reservations.Meter) bool { return m.Adaptive.Max > 0 }):
		problem = fmt.Sprintf("Meters is nil, and limit %q finds its rate: name the provider's meters", name)
	default:
		p.Meters = own.Meters
	}
	problems := append([]string{problem}, p.problems()...)
	for i, text := range problems {
		if text != "" {
			problems[i] = fmt.Sprintf("%q: %s", name, text)
		}
	}
	f.check("Fleet.Provider", problems...)
	if p.Slack == 0 {
		p.Slack = 3 * f.settings.most
		if f.settings.inRedis {
			p.Slack += 2 * time.Microsecond
		}
	}
	a := &API{
		fleet: f, name: name, Provider: p, copied: copied, accounts: map[string]*account{}, wrong: map[string]bool{},
		random: rand.New(rand.NewPCG(f.seedOf("provider "+name), 1)), //nolint:gosec // tests repeat it
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.apis[name] = a
	return a
}

// problems are the ones of the fields beside Meters.
func (p Provider) problems() []string {
	all := []string{
		share("Refuse", p.Refuse), share("Fail", p.Fail), share("Drop", p.Drop), fromZero("RetryAfter", p.RetryAfter),
	}
	if sum := p.Refuse + p.Fail + p.Drop; sum > 1 {
		all = append(all, fmt.Sprintf("Refuse, Fail and Drop are %v together: must be at most 1", sum))
	}
	return all
}

// metersProblem is why a provider can't enforce meters: Headway itself would refuse them as a limit.
func metersProblem(name string, meters []reservations.Meter) string {
	err := reservations.Limit{Name: name, Meters: meters}.Validate()
	if err == nil {
		return ""
	}
	return fmt.Sprintf("Meters: %v", err)
}

// limit returns the limit of the fleet with a name, or nil.
func (f *Fleet) limit(name string) *reservations.Limit {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.settings.limits, func(l reservations.Limit) bool { return l.Name == name })
	if i < 0 {
		return nil
	}
	return &f.settings.limits[i]
}

// SetMeters changes the limits that the API enforces: as many meters, in the same order. What is left in its buckets
// stays, up to the new capacity.
func (a *API) SetMeters(meters ...reservations.Meter) {
	a.fleet.t.Helper()
	a.fleet.check("API.SetMeters", metersProblem(a.name, meters), a.sameMeters(meters))
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	a.Meters = meters
	for _, acc := range a.accounts {
		acc.fill(now)
		old, oldUse := acc.meters, acc.use
		next := a.newAccount(now)
		acc.meters, acc.use = next.meters, next.use // calls that run end in the same account
		for i, m := range acc.meters {
			if i < len(old) {
				_, had, _ := old[i].Limits()
				_, _, full := m.Limits()
				m.Add(min(had, full) - full)
				acc.use[i] = oldUse[i]
			}
		}
	}
}

// sameMeters is the problem of meters that are not the same, with other rates.
func (a *API) sameMeters(meters []reservations.Meter) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	same := func(x, y reservations.Meter) bool { return x.Name == y.Name }
	if slices.EqualFunc(a.Meters, meters, same) {
		return ""
	}
	return fmt.Sprintf("the meters are %s: must be %s, in this order", metersText(meters), metersText(a.Meters))
}

// metersText names meters.
func metersText(meters []reservations.Meter) string {
	var names []string
	for _, m := range meters {
		names = append(names, m.Name)
	}
	return strings.Join(names, ", ")
}

// newAccount returns full meters.
func (a *API) newAccount(now time.Time) *account {
	acc := &account{filled: now, use: make([]use, len(a.Meters))}
	for _, m := range a.Meters {
		acc.meters = append(acc.meters, meterOf(m, a.Slack, now))
	}
	return acc
}

// meterOf returns a meter of Headway as a provider counts it.
func meterOf(m reservations.Meter, slack time.Duration, now time.Time) judge.Meter {
	switch m.Kind {
	case reservations.KindWindow:
		return judge.NewWindow(m.Rate, m.Period, m.Start, 0)
	case reservations.KindInFlight:
		return &judge.Flight{Most: m.Capacity}
	case reservations.KindBucket:
	}
	capacity := m.Cap()
	return judge.NewBucket(m.Rate/m.Period.Seconds(), capacity, max(0, slack), now)
}

// account returns that of a key, filled up to now. It requires that a.mu is held.
func (a *API) account(key string, now time.Time) *account {
	acc := a.accounts[key]
	if acc == nil {
		acc = a.newAccount(now)
		a.accounts[key] = acc
	}
	acc.fill(now)
	return acc
}

// fill lets time pass. What there was within a block is not counted.
func (acc *account) fill(now time.Time) {
	if acc.blockedUntil.After(acc.filled) && now.After(acc.filled) {
		end := acc.blockedUntil
		if end.After(now) {
			end = now
		}
		for _, m := range acc.meters {
			m.Fill(end)
		}
	}
	for i, m := range acc.meters {
		if room, unused := m.Fill(now); acc.wanted {
			acc.use[i].room += room
			acc.use[i].unused += unused
		}
	}
	acc.filled = now
}

// demand notes whether a task waits for a bucket.
func (f *Fleet) demand(bucket string, wanted bool) {
	c, _ := reservations.ParseBucket(bucket) // all shards count as one
	f.mu.Lock()
	a := f.apis[c.Limit]
	f.mu.Unlock()
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.account(c.Key, time.Now()).wanted = wanted
}
