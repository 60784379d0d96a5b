package scheduler

import (
	"container/heap"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/waitlist"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
)

// simBase is when each simulation begins, by every clock: the start of a window of any length up to a day.
var simBase = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// fleet is a fleet of workers over virtual time. The buckets, the plan of the dispatcher, and what a delivered task
// asks are those of production; the waitlist is a model of its scripts. Times are in seconds.
type fleet struct {
	name   string
	tasks  int
	limits []reservations.Limit // of one store; the first is that of charge
	// charge are the tokens of each task in the order of the first limit's meters; nil means one token each. Charges
	// replaces that by any charges, the narrowest first.
	charge  [][]float64
	charges func(task int) []reservations.Charge
	real    []float64 // what a task really uses, as a part of its charge; nil means all
	arrive  func(task int) float64
	urgent  func(task int) bool
	flow    func(task int) string

	slots, processes int
	run, deferring   float64 // of a handler that starts, and of one that does not
	deliver          float64 // a promoted task reaches a worker after up to so long
	poll             float64 // idle workers look for tasks so often, all at once; zero: at once
	gather           float64 // answers reach the waitlist after so long
	redis, store     float64 // latency of one call

	outage [2]float64 // no worker and no dispatcher runs
	down   [2]float64 // the store does not answer
	crash  [2]float64 // no dispatcher runs
	block  [2]float64 // a 429, and until when
	change [2]float64 // when all rates change, and by which factor
	kill   []float64  // when all workers are killed, and started again
	forget float64    // share of the deliveries that lose their place
	lose   float64    // share of the reports that are lost, and of the answers of the store
	other  float64    // tokens a second that are taken without a place
	stray  float64    // waiting tasks a second that are delivered unasked

	dispatchers int
	freeze      [2]float64 // the dispatcher on duty stands still between its look and its promotion
	twins       bool       // the duty is not checked: all dispatchers promote at any time

	storeAhead func(now float64) float64 // of real time
	redisAhead func(now float64) float64

	seed  uint64
	limit float64 // the end of the simulation
}

func (f fleet) withDefaults() fleet {
	f.tasks = orInt(f.tasks, 8000)
	f.slots, f.processes, f.dispatchers = orInt(f.slots, 200), orInt(f.processes, 1), orInt(f.dispatchers, 1)
	f.run, f.deferring = or(f.run, .05), or(f.deferring, .002)
	f.gather = max(or(f.gather, .01), reportEvery.Seconds())
	f.limit = or(f.limit, 5000)
	if f.arrive == nil {
		f.arrive = func(int) float64 { return 0 }
	}
	if f.charges == nil {
		f.charges = f.oneCharge
	}
	return f
}

func or(x, otherwise float64) float64 {
	if x == 0 {
		return otherwise
	}
	return x
}

func orInt(x, otherwise int) int {
	if x == 0 {
		return otherwise
	}
	return x
}

// oneCharge is a charge of the first limit.
func (f fleet) oneCharge(task int) []reservations.Charge {
	c := reservations.Charge{Limit: f.limits[0].Name, Tokens: reservations.Tokens{}}
	for k, m := range f.limits[0].Meters {
		c.Tokens[m.Name] = 1
		if f.charge != nil {
			c.Tokens[m.Name] = f.charge[task][k]
		}
	}
	c.Urgent = f.urgent != nil && f.urgent(task)
	if f.flow != nil {
		c.Flow = f.flow(task)
	}
	return []reservations.Charge{c}
}

// used is the part of the charge of a meter that the task really uses: where a limit has several, the first one counts
// requests and is exact.
func (f fleet) used(task int, l reservations.Limit, meter int) float64 {
	if f.real == nil || len(l.Meters) > 1 && meter == 0 {
		return 1
	}
	return f.real[task]
}

// simState is where asynq has a task.
type simState int

const (
	stateNew simState = iota // not enqueued yet
	statePending
	stateActive
	stateAway // in asynq's retry or scheduled set
	stateDone
)

// simTask is one task.
type simTask struct {
	state      simState
	name       waitlist.Task
	charges    []reservations.Charge
	arrived    time.Duration
	started    time.Duration
	deliveries int
	killed     bool // with its worker: asynq delivers it again when its lease has ended
	run        int  // counts deliveries that were not cut off: what belongs to an earlier one is void
	net        int  // counts nets
}

// world is a simulation under way.
type world struct {
	fleet

	random  *rand.Rand
	now     time.Duration
	events  events
	store   *memstore.Store
	limiter *reservations.Limiter
	sched   *Scheduler // its pure methods alone
	list    *simList
	all     []*simTask

	promoted, fresh []int // asynq's pending list: its head, and behind it
	free            int
	workers         []*simProcess
	dispatching     []*simDispatcher
	frozen          *simDispatcher
	done            int
	judge           judge
	away            []int // may hold tasks that are not away any more: for strays
}

// event is something that happens.
type event struct {
	at    time.Duration
	order int
	do    func()
}

type events struct {
	all   []event
	count int
}

func (e *events) Len() int      { return len(e.all) }
func (e *events) Swap(i, j int) { e.all[i], e.all[j] = e.all[j], e.all[i] }
func (e *events) Push(x any)    { e.all = append(e.all, x.(event)) }

func (e *events) Less(i, j int) bool {
	if e.all[i].at != e.all[j].at {
		return e.all[i].at < e.all[j].at
	}
	return e.all[i].order < e.all[j].order
}

func (e *events) Pop() any {
	last := e.all[len(e.all)-1]
	e.all[len(e.all)-1] = event{}
	e.all = e.all[:len(e.all)-1]
	return last
}

// at has something happen at a moment, or now.
func (w *world) at(at time.Duration, do func()) {
	w.events.count++
	heap.Push(&w.events, event{at: max(at, w.now), order: w.events.count, do: do})
}

func (w *world) after(d time.Duration, do func()) { w.at(w.now+d, do) }

// call is after a latency; without one it happens at once.
func (w *world) call(latency float64, do func()) {
	if latency == 0 {
		do()
		return
	}
	w.after(seconds(latency*(.5+w.random.Float64())), do)
}

func (w *world) in(span [2]float64) bool {
	now := w.now.Seconds()
	return span[0] <= now && now < span[1]
}

// storeClock is the moment on the store's clock.
func (w *world) storeClock() time.Time { return simBase.Add(w.now + w.ahead(w.storeAhead)) }

// redisClock is the moment on Redis's clock.
func (w *world) redisClock() time.Duration {
	return (w.now + w.ahead(w.redisAhead)).Truncate(time.Microsecond)
}

func (w *world) ahead(clock func(float64) float64) time.Duration {
	if clock == nil {
		return 0
	}
	return time.Duration(clock(w.now.Seconds()) * float64(time.Second))
}

// simulate runs the fleet until all tasks are done.
func simulate(tb testing.TB, f fleet) fleetReport {
	tb.Helper()
	w := &world{fleet: f.withDefaults()}
	w.random = rand.New(rand.NewPCG(f.seed, 1))
	w.store = memstore.New(w.storeClock)
	var err error
	if w.limiter, err = reservations.New(w.store, w.limits, reservations.Config{}); err != nil {
		tb.Fatalf("%s: %v", f.name, err)
	}
	w.sched = &Scheduler{limiter: w.limiter}
	w.list = newSimList(w.redisClock, w.wake, func(task int) waitlist.Task { return w.all[task].name })
	w.judge = newJudge(w)
	w.free = w.slots
	for i := range w.processes {
		w.workers = append(w.workers, &simProcess{w: w, id: i, answers: map[string]reported{}})
	}
	for i := range w.dispatchers {
		d := &simDispatcher{w: w, id: i + 1}
		w.dispatching = append(w.dispatching, d)
		d.look(0)
	}
	for i := range w.tasks {
		t := &simTask{name: waitlist.Task{Queue: "default", ID: strconv.Itoa(i)}, arrived: seconds(w.arrive(i))}
		t.charges = w.charges(i)
		w.all = append(w.all, t)
		w.at(t.arrived, func() {
			t.state = statePending
			w.fresh = append(w.fresh, i)
			w.pump()
		})
	}
	w.disturb()
	end := seconds(w.limit)
	for w.done < w.tasks && w.events.Len() > 0 && w.now < end {
		e := heap.Pop(&w.events).(event) //nolint:forcetypeassert // only those are there
		w.now = e.at
		e.do()
	}
	return w.judge.report()
}

// seconds converts virtual seconds.
func seconds(x float64) time.Duration { return time.Duration(x * float64(time.Second)) }
