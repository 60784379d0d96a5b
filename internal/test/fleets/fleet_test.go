package fleets_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/headwaytest"
	"github.com/headway-go/headway/internal/fleet/settings"
	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

const (
	// size is the number of workers of a fleet.
	size = 3
	// patience is the virtual time that a fleet has to end its tasks.
	patience = 10 * time.Minute
	// followed is the time after which the whole fleet follows an override.
	followed = settings.FollowEvery + time.Second
)

// call is a task that calls the API "api".
type call struct {
	N int `json:"n"`
	// Series precedes N in the ID of the task: the IDs of a series are in the order of their numbers.
	Series string `json:"series,omitempty"`
	Flow   string `json:"flow,omitempty"`
	// Tenant is the key of the limit "tenants", which the task charges first. Empty means no such charge.
	Tenant string `json:"tenant,omitempty"`
	// Tokens is the estimate for the meter "tokens", and Used what the call uses. Zero means no such meter.
	Tokens float64 `json:"tokens,omitempty"`
	Used   float64 `json:"used,omitempty"`
	// Day says that the API has a meter "day", of a window.
	Day bool `json:"day,omitempty"`
	// InFlight says that the API limits only calls in flight.
	InFlight bool `json:"in_flight,omitempty"`
}

func (call) TaskType() string { return "call" }

func (c call) Charges() []reservations.Charge {
	last := reservations.Charge{Limit: "api", Flow: c.Flow}
	if !c.InFlight {
		last.Tokens = reservations.Tokens{"requests": 1}
	}
	if c.Tokens > 0 {
		last.Tokens["tokens"] = c.Tokens
	}
	if c.Day {
		last.Tokens["day"] = 1
	}
	if c.Tenant == "" {
		return []reservations.Charge{last}
	}
	return []reservations.Charge{
		{Limit: "tenants", Key: c.Tenant, Flow: c.Flow, Tokens: reservations.Tokens{"requests": 1}}, last,
	}
}

func (c call) TaskOptions() tasks.Options {
	return tasks.Options{ID: fmt.Sprintf("%s%05d", cmp.Or(c.Series, "t"), c.N)}
}

func numbered(n int) tasks.Args { return call{N: n} }

// perSecond is a meter of requests.
func perSecond(rate, capacity float64) reservations.Meter {
	m := reservations.PerSecond("requests", rate)
	m.Capacity = capacity
	return m
}

// limit is that of the API.
func limit(meters ...reservations.Meter) reservations.Limit {
	return reservations.Limit{Name: "api", Meters: meters}
}

// requestsOnly is the limit of most tests.
var requestsOnly = limit(perSecond(10, 5))

// usual is the API of most tests.
var usual = headwaytest.Provider{Latency: headwaytest.Between(50*time.Millisecond, 1500*time.Millisecond)}

// fleet is a fleet whose calls are recorded.
type fleet struct {
	*headwaytest.Fleet
	t       *testing.T
	api     *headwaytest.API
	tenants *headwaytest.API // nil without a limit "tenants"
	// refuse returns the time for which the call with this number, from 1, is refused; zero means that it is not. Nil
	// refuses none.
	refuse func(number int) time.Duration

	mu        sync.Mutex // guards what is below
	calls     []*made
	number    int
	dead      map[*worker.Worker]bool
	onDuty    string
	duties    int
	overrides []reservations.Override
	histories map[string][]string // by task, its events
}

// made is a call.
type made struct {
	task    string
	attempt int
	at, end time.Time // a zero end means that it runs
	err     error
	by      *worker.Worker
}

// world is the environment of a fleet.
type world struct {
	limits   []reservations.Limit
	provider headwaytest.Provider
	options  []headwaytest.Option
}

// in lets play run with a fleet in this world, whose messages take 0.1 to 0.3 ms. No worker is started.
func in(t *testing.T, w world, play func(f *fleet)) {
	t.Helper()
	t.Parallel()
	f := &fleet{t: t, dead: map[*worker.Worker]bool{}, histories: map[string][]string{}}
	options := append([]headwaytest.Option{
		headwaytest.Limits(w.limits...), headwaytest.Log(dutyLog{fleet: f}),
		headwaytest.Network(100*time.Microsecond, 300*time.Microsecond),
	}, w.options...)
	headwaytest.Run(t, func(of *headwaytest.Fleet) {
		f.Fleet = of
		f.api = of.Provider("api", w.provider)
		play(f)
	}, options...)
}

// start starts workers.
func (f *fleet) start(n int, config ...worker.Config) {
	var c worker.Config
	if len(config) > 0 {
		c = config[0]
	}
	c.Overrides = f.readOverrides
	c.Events = append(c.Events, f.note)
	f.Workers(n, f.setUp, c)
}

// setUp registers the handler, which records its calls.
func (f *fleet) setUp(w *worker.Worker) {
	caller := f.api.Caller()
	var tenant *headwaytest.Caller
	if f.tenants != nil {
		tenant = f.tenants.Caller()
	}
	worker.Handle(w, func(ctx context.Context, job *worker.Job[call]) error {
		m, refusedFor := f.begin(w, job.ID, job.Attempt)
		if refusedFor > 0 {
			return reservations.RetryAfter(refusedFor, nil)
		}
		if tenant != nil { // its limit counts the call, and takes no time
			if err := tenant.Do(ctx, headwaytest.Call{Key: job.Args.Tenant}); err != nil {
				return err
			}
		}
		c := headwaytest.Call{}
		if job.Args.Tokens > 0 {
			c.Tokens = reservations.Tokens{"tokens": job.Args.Tokens}
			c.Used = reservations.Tokens{"tokens": job.Args.Used}
			job.Use(c.Used)
		}
		err := caller.Do(ctx, c)
		f.finish(m, err)
		return err
	})
}

// note adds an event to the history of its task.
func (f *fleet) note(e worker.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	text := fmt.Sprintf("%v %s", f.Elapsed(), e.Kind)
	if e.Kind == worker.KindDeferred {
		text += fmt.Sprintf(" for %v: %v", time.Until(e.Until), e.Err)
	}
	f.histories[e.Task.ID] = append(f.histories[e.Task.ID], text)
}

// history describes the events of a task.
func (f *fleet) history(task string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.histories[task], "\n")
}

func (f *fleet) begin(w *worker.Worker, task string, attempt int) (m *made, refusedFor time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m = &made{task: task, attempt: attempt, at: time.Now(), by: w}
	if f.dead[w] {
		return m, 0
	}
	if f.number++; f.refuse != nil {
		refusedFor = f.refuse(f.number)
	}
	if refusedFor == 0 {
		f.calls = append(f.calls, m)
	}
	return m, refusedFor
}

func (f *fleet) finish(m *made, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m.end.IsZero() {
		m.end, m.err = time.Now(), err
	}
}

// kill ends a worker as kill -9 does.
func (f *fleet) kill(number int) {
	w := f.Worker(number)
	w.Kill()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead[w.Worker] = true
	for _, m := range f.calls {
		if m.by == w.Worker && m.end.IsZero() {
			m.end = time.Now()
		}
	}
}

// made returns the calls so far, in order.
func (f *fleet) made() []made {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]made, len(f.calls))
	for i, m := range f.calls {
		all[i] = *m
	}
	return all
}

// callsIn returns the number of calls between two times, and the calls that ran then, in calls times seconds.
func (f *fleet) callsIn(from, to time.Time) (n int, ran float64, most int) {
	all := f.made()
	for _, m := range all {
		if !m.at.Before(from) && m.at.Before(to) {
			n++
		}
		begin, end := m.at, m.end
		if end.IsZero() || end.After(to) {
			end = to
		}
		if begin.Before(from) {
			begin = from
		}
		if !end.After(begin) {
			continue
		}
		ran += end.Sub(begin).Seconds()
		beside := 0 // calls that run at its begin
		for _, o := range all {
			if !o.at.After(begin) && (o.end.IsZero() || o.end.After(begin)) {
				beside++
			}
		}
		most = max(most, beside)
	}
	return n, ran, most
}

// await lets time pass until that many calls have ended.
func (f *fleet) await(ended int) {
	f.t.Helper()
	for deadline := time.Now().Add(patience); ; f.Run(100 * time.Millisecond) {
		n := 0
		for _, m := range f.made() {
			if !m.end.IsZero() {
				n++
			}
		}
		if n >= ended {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("%d calls have ended, wanted %d: %v", n, ended, f.Report())
		}
	}
}

// end lets the fleet end its tasks. It fails unless all of them are done, and no call had no room.
func (f *fleet) end(count int) headwaytest.Report {
	f.t.Helper()
	f.Drain(patience)
	r := f.Report()
	if r.Violations > 0 || r.Ignored > 0 || r.Lost > 0 || r.Left > 0 || r.Done != count || r.Tasks != count {
		f.t.Errorf("want %d tasks done: %v", count, r)
	}
	return r
}

// wantOnce fails if a task had more than one call, or has used a retry.
func (f *fleet) wantOnce() {
	f.t.Helper()
	seen := map[string]int{}
	for _, m := range f.made() {
		if seen[m.task]++; seen[m.task] > 1 || m.attempt > 1 {
			f.t.Errorf("call %d of task %s, at attempt %d", seen[m.task], m.task, m.attempt)
		}
	}
}

// wantUse fails if less than this share of the limit was used.
func (f *fleet) wantUse(r headwaytest.Report, least float64) {
	f.t.Helper()
	if r.Use["api"] < least {
		f.t.Errorf("want %.2f %% used: %v", 100*least, r)
	}
}

// wantDeliveries fails if tasks were delivered more often than most on average.
func (f *fleet) wantDeliveries(r headwaytest.Report, most float64) {
	f.t.Helper()
	if r.Deliveries > most {
		f.t.Errorf("want at most %g deliveries a task: %v", most, r)
	}
}

// wantInOrder fails if a task lost more places than most between its number and its first call. It leaves out the tasks
// of except.
func (f *fleet) wantInOrder(most int, except map[string]bool) {
	f.t.Helper()
	var started []string
	seen := map[string]bool{}
	for _, m := range f.made() {
		if !seen[m.task] && !except[m.task] {
			started = append(started, m.task)
		}
		seen[m.task] = true
	}
	worst, task := 0, ""
	for i, id := range slices.Sorted(slices.Values(started)) {
		if lost := slices.Index(started, id) - i; lost > worst {
			worst, task = lost, id
		}
	}
	f.t.Logf("%d places lost by %q, %d tasks left out", worst, task, len(except))
	if worst > most {
		f.t.Errorf("task %s lost %d places, wanted at most %d:\n%s", task, worst, most, f.history(task))
	}
}

// active returns the tasks that workers hold.
func (f *fleet) active() map[string]bool {
	f.t.Helper()
	held, err := f.inspector().ListActiveTasks(envelope.QueueDefault, asynq.PageSize(1000))
	if err != nil {
		f.t.Fatalf("list the active tasks: %v", err)
	}
	all := map[string]bool{}
	for _, task := range held {
		all[task.ID] = true
	}
	return all
}

// inspector is asynq's, on the client of the fleet.
func (f *fleet) inspector() *asynq.Inspector { return asynq.NewInspectorFromRedisClient(f.Client()) }

// override replaces the overrides that workers follow.
func (f *fleet) override(all ...reservations.Override) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.overrides = all
}

func (f *fleet) readOverrides(context.Context) ([]reservations.Override, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.overrides), nil
}

// first returns the time at which the task with this number, from 1, started as the first calls of all tasks count.
func (f *fleet) first(number int) time.Time {
	f.t.Helper()
	seen := map[string]bool{}
	for _, m := range f.made() {
		if !seen[m.task] {
			if seen[m.task] = true; len(seen) == number {
				return m.at
			}
		}
	}
	f.t.Fatalf("only %d tasks have started, wanted %d", len(seen), number)
	return time.Time{}
}
