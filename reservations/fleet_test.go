package reservations_test

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/headway-go/headway/reservations"
)

// fleet is a fleet of workers over virtual time. It drives the Step of production; what is here is only the world around
// it: tasks arrive, a handler slot is taken for each delivery, a handler runs and then settles its real cost, a deferred task is
// woken when it is due. Every random draw is made as in the reference simulation, in the same order. Times are seconds.
type fleet struct {
	tasks     int
	limit     reservations.Limit
	charge    [][]float64         // by task; nil is one token in each meter
	real      []float64           // share of the charge that was really used, by task; nil is all of it
	arrive    func(i int) float64 // nil is all at the start
	urgent    []bool              // by task; nil is none
	slots     int
	run       float64    // how long a handler runs
	deferring float64    // how long a deferral takes a slot
	poll      float64    // due tasks become pending so often
	outage    [2]float64 // nobody works from the first to the second
	block     [2]float64 // at the first, a 429 until the second
	jitter    float64    // up to so much is added to every due time
	forget    float64    // share of deliveries that lose their place
	reserved  bool       // a task that arrives has its tokens reserved already
	classic   bool       // a reserved task starts without asking: the usual design, for comparison
	changes   []changed  // of the limit, in the order of time
	each      func()     // called at each step, after those that are due were woken; nil is nothing
	gone      int        // tasks that were withdrawn
	seed      uint32
	tie       float64 // whoever is due within so much of a poll is woken by it, see tieEarly

	random         *pythonRandom
	bucket         reservations.Bucket
	now, nextPoll  float64
	wake, express  heap[waiting] // express: those in the line of urgent tasks
	pending        []waiting
	blocked        float64 // since when, and until when
	blockedUntil   float64
	early          int // starts during the block
	arrived, taken int // of the tasks; of pending
	deferred       int // so often
	running        heap[float64]
	settling       heap[moment]
	free           int
	starts, ends   []moment
	startOf        []float64
	deliveries     []int
}

// changed is a limit from a moment on.
type changed struct {
	at    float64
	limit reservations.Limit
}

// waiting is a task on its way back; seq keeps the order of those that are due together.
type waiting struct {
	due   float64
	seq   int
	task  int
	state reservations.State
	told  time.Time // when it is due, less jitter
}

type moment struct {
	at   float64
	task int
}

// virtualStart is the moment zero of the virtual clock.
var virtualStart = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// In the simulation many tasks are due at the very moment of a poll. In the reference the rounding error of a float decides
// whether that poll or the next one wakes them. Here it is decided, far above any rounding error: a tie is woken early, or late where a
// scenario says so.
const (
	tieEarly = 1e-7
	tieLate  = -1e-7
)

// virtualEnd is when a simulation gives up.
const virtualEnd = 5000.

func clock(s float64) time.Time {
	return virtualStart.Add(time.Duration(math.Round(s * float64(time.Second))))
}

func (f *fleet) simulate() {
	f.random, f.free = newPythonRandom(f.seed), f.slots
	f.wake.less = func(a, b waiting) bool { return a.due < b.due || a.due == b.due && a.seq < b.seq }
	f.express.less = f.wake.less
	f.running.less = func(a, b float64) bool { return a < b }
	f.settling.less = func(a, b moment) bool { return a.at < b.at || a.at == b.at && a.task < b.task }
	f.startOf, f.deliveries = make([]float64, f.tasks), make([]int, f.tasks)
	if f.charge == nil {
		f.charge = slices.Repeat([][]float64{slices.Repeat([]float64{1}, len(f.limit.Meters))}, f.tasks)
	}
	if f.real == nil {
		f.real = slices.Repeat([]float64{1}, f.tasks)
	}
	for len(f.starts) < f.tasks-f.gone && f.now < virtualEnd {
		f.deliver()
		if f.each != nil {
			f.each()
		}
		if f.block[0] > 0 && f.now >= f.block[0] {
			f.step(reservations.Request{Op: reservations.OpBlock, Tokens: make([]float64, len(f.limit.Meters)), For: clock(f.block[1]).Sub(clock(f.now))})
			f.blocked, f.blockedUntil = f.now, f.block[1]
			f.block = [2]float64{}
		}
		if len(f.changes) > 0 && f.now >= f.changes[0].at {
			f.limit, f.changes = f.changes[0].limit, f.changes[1:]
			f.step(reservations.Request{Op: reservations.OpSettle, Tokens: make([]float64, len(f.limit.Meters))})
		}
		f.finish()
		f.work()
		next := f.nextPoll
		if f.running.len() > 0 && f.taken < len(f.pending) && f.free == 0 {
			next = min(next, f.running.first())
		}
		f.now = max(next, f.now+1e-6)
	}
}

func (f *fleet) arrival(i int) float64 {
	if f.arrive == nil {
		return 0
	}
	return f.arrive(i)
}

// deliver makes pending what is due or has arrived.
func (f *fleet) deliver() {
	if f.now < f.nextPoll {
		return
	}
	for f.express.len() > 0 && f.express.first().due <= f.now+f.bucket.ExpressShift+f.tie {
		f.pending = append(f.pending, f.express.pop())
	}
	for f.wake.len() > 0 && f.wake.first().due <= f.line()+f.tie {
		f.pending = append(f.pending, f.wake.pop())
	}
	for ; f.arrived < f.tasks && f.arrival(f.arrived) <= f.now; f.arrived++ {
		if !f.reserved {
			f.pending = append(f.pending, waiting{task: f.arrived, state: reservations.StateNew})
			continue
		}
		o := f.step(reservations.Request{Op: reservations.OpReserve, Tokens: f.charge[f.arrived]})
		f.wake.push(waiting{due: o.Due.Sub(virtualStart).Seconds(), seq: f.deferred, task: f.arrived, state: o.State, told: o.Due})
		f.deferred++
	}
	f.nextPoll = f.now + f.poll
}

// line is what the clock of those who wait reads.
func (f *fleet) line() float64 {
	if f.bucket.At.IsZero() {
		return f.now
	}
	return f.now + f.bucket.Shift + (f.now-f.bucket.At.Sub(virtualStart).Seconds())*(f.bucket.Speed-1)
}

// finish frees the slots whose handlers are done, and settles.
func (f *fleet) finish() {
	for f.running.len() > 0 && f.running.first() <= f.now {
		f.running.pop()
		f.free++
	}
	for f.settling.len() > 0 && f.settling.first().at <= f.now {
		task := f.settling.pop().task
		back := make([]float64, len(f.limit.Meters))
		for k := range back {
			back[k] = f.charge[task][k] - f.cost(task, k)
		}
		f.step(reservations.Request{Op: reservations.OpSettle, Tokens: back})
	}
}

// work gives pending tasks to free slots.
func (f *fleet) work() {
	for (f.now < f.outage[0] || f.now >= f.outage[1]) && f.free > 0 && f.taken < len(f.pending) {
		task, state, told := f.pending[f.taken].task, f.pending[f.taken].state, f.pending[f.taken].told
		f.taken++
		f.deliveries[task]++
		f.free--
		if f.forget > 0 && f.random.float() < f.forget {
			state = reservations.StateNew
		}
		f.begin(task, state, told)
	}
}

func (f *fleet) begin(task int, state reservations.State, told time.Time) {
	o := reservations.Outcome{State: reservations.StateStarted}
	if !f.classic || state != reservations.StateReserved {
		o = f.step(reservations.Request{Op: reservations.OpBegin, State: state, Due: told, Tokens: f.charge[task], Urgent: f.urgent != nil && f.urgent[task]})
	}
	if !o.Started() {
		due := o.Due.Sub(virtualStart).Seconds() + f.random.float()*f.jitter
		line := &f.wake
		if o.State == reservations.StateExpress {
			line = &f.express
		}
		line.push(waiting{due: due, seq: f.deferred, task: task, state: o.State, told: o.Due})
		f.deferred++
		f.running.push(f.now + f.deferring)
		return
	}
	at := f.now + o.Hold.Seconds()
	if f.now > f.blocked && at < f.blockedUntil-1e-6 {
		f.early++
	}
	f.startOf[task] = at
	f.starts = append(f.starts, moment{at, task})
	f.running.push(at + f.run)
	if f.real[task] != 1 {
		f.ends = append(f.ends, moment{at + f.run, task})
		f.settling.push(moment{at + f.run, task})
	}
}

func (f *fleet) step(r reservations.Request) (o reservations.Outcome) {
	f.bucket, o = reservations.Step(f.bucket, f.limit, clock(f.now), r)
	return o
}

// cost is what the task really used of meter k. Of several meters the first counts requests, which are exact.
func (f *fleet) cost(task, k int) float64 {
	if k == 0 && len(f.limit.Meters) > 1 {
		return f.charge[task][k]
	}
	return f.charge[task][k] * f.real[task]
}

// fleetReport is what the reference simulation prints of a scenario.
type fleetReport struct {
	done       int
	early      int     // starts that a block should have kept back
	util       float64 // share of the limit: the least possible time until the last start, divided by the real one
	deliveries float64 // a task
	most       int     // deliveries of one task
	win        float64 // fullest window of 1, 10 or 60 s of any meter, as a share of capacity + rate*T
	held       float64 // the same as a share of capacity + rate*(T+Hold): the promise
	lost       float64 // most places lost by a task, in % of all tasks
}

func (f *fleet) report() fleetReport {
	r := fleetReport{done: len(f.starts), early: f.early}
	last, total := 0., 0
	for _, s := range f.starts {
		last = max(last, s.at)
	}
	for _, n := range f.deliveries {
		total += n
		r.most = max(r.most, n)
	}
	r.util = f.best() / last
	r.deliveries = float64(total) / float64(f.tasks)
	for k := range f.limit.Meters {
		f.windows(k, &r)
	}
	order := make([]int, f.tasks)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(f.startOf[a], f.startOf[b]) })
	for place, task := range order {
		r.lost = max(r.lost, 100*float64(place-task)/float64(f.tasks))
	}
	return r
}

// best is the earliest that the last task could have started.
func (f *fleet) best() float64 {
	best := f.arrival(f.tasks - 1)
	for k, m := range f.limit.Meters {
		sum := 0.
		for i := range f.tasks {
			sum += f.cost(i, k)
		}
		best = max(best, (sum-m.Cap())/m.RatePerSecond())
	}
	return best
}

// windows finds the fullest windows of meter k. A charge counts when its task starts, its correction when it is settled.
func (f *fleet) windows(k int, r *fleetReport) {
	type counted struct{ at, tokens float64 }
	var seen []counted
	m, largest := f.limit.Meters[k], 0.
	for _, c := range f.charge {
		largest = max(largest, c[k])
	}
	for _, s := range f.starts {
		seen = append(seen, counted{s.at, f.charge[s.task][k]})
	}
	for _, e := range f.ends {
		seen = append(seen, counted{e.at, f.cost(e.task, k) - f.charge[e.task][k]})
	}
	slices.SortFunc(seen, func(a, b counted) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.tokens, b.tokens)) })
	for _, window := range []float64{1, 10, 60} {
		first, sum, fullest := 0, 0., 0.
		for _, c := range seen {
			sum += c.tokens
			for ; c.at-seen[first].at > window; first++ {
				sum -= seen[first].tokens
			}
			fullest = max(fullest, sum)
		}
		allowed := max(m.Cap(), largest) + m.RatePerSecond()*window
		if m.Kind == reservations.KindWindow {
			allowed = max(m.Cap(), largest) + m.Rate*(1+math.Floor(window/m.Period.Seconds()))
		}
		r.win = max(r.win, fullest/allowed)
		r.held = max(r.held, fullest/(allowed+m.RatePerSecond()*reservations.Hold.Seconds()))
	}
}

// heap is a binary heap; the least is first.
type heap[T any] struct {
	less  func(a, b T) bool
	items []T
}

func (h *heap[T]) len() int { return len(h.items) }
func (h *heap[T]) first() T { return h.items[0] }

func (h *heap[T]) push(x T) {
	h.items = append(h.items, x)
	for i := len(h.items) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h.less(h.items[i], h.items[parent]) {
			return
		}
		h.items[i], h.items[parent] = h.items[parent], h.items[i]
		i = parent
	}
}

func (h *heap[T]) pop() T {
	top, last := h.items[0], len(h.items)-1
	h.items[0] = h.items[last]
	h.items = h.items[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if h.less(h.items[child], h.items[least]) {
				least = child
			}
		}
		if least == i {
			return top
		}
		h.items[i], h.items[least] = h.items[least], h.items[i]
		i = least
	}
}
