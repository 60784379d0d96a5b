package engine

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

// simBase is the beginning of each simulation, by every clock. It is the start of a window of any length up to a day.
var simBase = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// fleet is a fleet of workers in virtual time. It uses the production code of the buckets, of the dispatcher's plan,
// and of the requests of a delivered task. The waitlist is a model of its scripts. Times are in seconds.
type fleet struct {
	name   string
	tasks  int
	limits []reservations.Limit // of one store; charge is for the first.
	// charge is the tokens of each task in the order of the first limit's meters; nil means one token each. charges
	// replaces charge by several charges per task, the narrowest first.
	charge  [][]float64
	charges func(task int) []reservations.Charge
	real    []float64 // the real usage of a task, as a part of its charge; nil means all.
	arrive  func(task int) float64
	urgent  func(task int) bool
	flow    func(task int) string

	slots, processes int
	run, deferring   float64 // duration of a handler that starts, and of one that does not.
	deliver          float64 // the longest delivery of a promoted task.
	poll             float64 // the poll interval of idle workers, all at once; zero: at once.
	gather           float64 // after which answers reach the waitlist.
	redis, store     float64 // latency of one call.

	outage [2]float64 // no worker and no dispatcher runs.
	down   [2]float64 // the store does not answer.
	crash  [2]float64 // no dispatcher runs.
	block  [2]float64 // a 429, and until when.
	change [2]float64 // when all rates change, and by which factor.
	kill   []float64  // when all workers are killed and started again.
	forget float64    // share of the deliveries that lose their place.
	lose   float64    // share of the reports that are lost, and of the answers of the store.
	other  float64    // tokens a second taken without a place.
	stray  float64    // waiting tasks a second delivered without a promotion.

	dispatchers int
	freeze      [2]float64 // the dispatcher on duty stalls between its look and its promotion.
	twins       bool       // the duty is not checked: all dispatchers promote at any time.

	storeAhead func(now float64) float64 // of real time.
	redisAhead func(now float64) float64

	seed  uint64
	limit float64 // the end of the simulation.
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

// oneCharge returns the charge of a task to the first limit.
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

// used returns the used part of the charge of a meter. If a limit has several meters, the first one counts requests
// and is exact.
func (f fleet) used(task, meters, meter int) float64 {
	if f.real == nil || meters > 1 && meter == 0 {
		return 1
	}
	return f.real[task]
}

// simState is the state of a task in asynq.
type simState int

const (
	stateNew simState = iota // before its enqueueing
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
	killed     bool // with its worker; asynq delivers it again after its lease
	run        int  // counts deliveries; events of earlier ones are ignored
	net        int  // counts deliveries of asynq's retry set
}

// world is a running simulation.
type world struct {
	fleet

	random  *rand.Rand
	now     time.Duration
	events  events
	store   *memstore.Store
	limiter *reservations.Limiter
	sched   *Engine // only its pure methods are used
	list    *simList
	all     []*simTask

	promoted, fresh []int // asynq's pending list: the head, and the rest
	free            int
	workers         []*simProcess
	dispatching     []*simDispatcher
	frozen          *simDispatcher
	done            int
	judge           judge
	away            []int // for strays; may contain tasks that are not away any more
}

// event is an event of the simulation.
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

// at plans an event at a time, or now if that has passed.
func (w *world) at(at time.Duration, do func()) {
	w.events.count++
	heap.Push(&w.events, event{at: max(at, w.now), order: w.events.count, do: do})
}

func (w *world) after(d time.Duration, do func()) { w.at(w.now+d, do) }

// call plans an event after a latency. Without one the event happens at once.
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

// storeClock returns the time of the store's clock.
func (w *world) storeClock() time.Time { return simBase.Add(w.now + w.ahead(w.storeAhead)) }

// redisClock returns the time of Redis's clock.
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
	w.sched = &Engine{limiter: w.limiter}
	w.list = newSimList(w.redisClock, w.wake, func(task int) waitlist.Task { return w.all[task].name })
	w.judge = newJudge(w)
	w.free = w.slots
	for i := range w.processes {
		w.workers = append(w.workers, &simProcess{w: w, id: i, answers: map[string]reported{}, faults: new(faults)})
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
		e := heap.Pop(&w.events).(event) //nolint:forcetypeassert // the heap contains only events
		w.now = e.at
		e.do()
	}
	return w.judge.report()
}

// seconds converts virtual seconds.
func seconds(x float64) time.Duration { return time.Duration(x * float64(time.Second)) }
