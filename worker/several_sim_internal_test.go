package worker

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/scheduler"
)

// several is a fleet over virtual time whose tasks charge several limits. It drives the claims of production on buckets in
// memory; what is here is only the world around them: lines, wakers, handlers that settle.
type several struct {
	t      *testing.T
	limits []reservations.Limit
	tasks  []*virtual
	run    time.Duration    // of a handler
	used   float64          // share of the tokens that is really used; zero is all
	away   [2]time.Duration // nobody works from the first to the second
	block  [2]time.Duration // at the first, the provider refuses for the second
	forget float64          // share of deliveries that lose their places
	lose   float64          // share of starts given back that a crash swallows
	jitter time.Duration    // most that is added to a due time
	cancel bool             // give back all, and keep no turn: the obvious way, for comparison

	now     time.Time
	random  *rand.Rand
	store   *memstore.Store
	limiter *reservations.Limiter
	lines   map[string][]*virtual // by bucket and generation
	settles []*virtual            // by end
	counts  map[string][]counted  // what was started in each bucket
	holding []*resting            // deliveries that hold between two buckets
	left    int
}

// resting is a delivery that goes on at a time.
type resting struct {
	until time.Time
	next  func() (time.Time, bool)
}

// virtual is a task of the simulation.
type virtual struct {
	tenant     string
	reserved   bool // enqueued with Reserved
	arrives    time.Duration
	charges    []reservations.Charge
	deliveries int
	held       []scheduler.Held
	due        time.Time // on the clock of the line
	started    time.Time
	ends       time.Time
	charged    []reservations.Charge
}

type counted struct {
	at time.Time
	n  reservations.Tokens
}

const (
	virtualTick = 10 * time.Millisecond
	virtualEnd  = time.Hour // gives up
)

func (s *several) simulate() {
	s.t.Helper()
	start := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	s.now, s.random, s.left = start, rand.New(rand.NewPCG(1, 2)), len(s.tasks) // the same each time
	s.store = memstore.New(func() time.Time { return s.now })
	s.lines, s.counts = map[string][]*virtual{}, map[string][]counted{}
	var err error
	if s.limiter, err = reservations.New(s.store, s.limits, reservations.Config{}); err != nil {
		s.t.Fatal(err)
	}
	coming := slices.Clone(s.tasks)
	slices.SortStableFunc(coming, func(a, b *virtual) int { return int(a.arrives - b.arrives) })
	blocked := false
	for ; s.now.Sub(start) < virtualEnd && (s.left > 0 || len(s.holding) > 0); s.now = s.now.Add(virtualTick) {
		passed := s.now.Sub(start)
		s.settle()
		if s.block[1] > 0 && !blocked && passed >= s.block[0] {
			s.must(s.limiter.Block(s.t.Context(), "provider", "", s.block[1]))
			blocked = true
		}
		if s.away[0] <= passed && passed < s.away[1] {
			continue
		}
		due := s.due()
		for len(coming) > 0 && coming[0].arrives <= passed {
			if coming[0].reserved {
				s.reserve(coming[0])
			} else {
				due = append(due, coming[0])
			}
			coming = coming[1:]
		}
		s.goOn()
		for _, v := range due {
			next, _ := iter.Pull(func(rest func(time.Time) bool) { s.deliver(v, rest) })
			s.holding = append(s.holding, &resting{next: next})
		}
		s.goOn()
	}
	for range s.settles {
		s.now = s.now.Add(s.run)
		s.settle()
	}
}

// due takes those out of their lines whose time has come, in their order.
func (s *several) due() (due []*virtual) {
	for _, name := range slices.Sorted(maps.Keys(s.lines)) {
		line := s.lines[name]
		clock := s.now.Add(scheduler.WakeEarlyDefault + s.shift(line[0].held[0].Bucket))
		n := 0
		for n < len(line) && !line[n].due.After(clock) {
			n++
		}
		due = append(due, line[:n]...)
		if s.lines[name] = line[n:]; n == len(line) {
			delete(s.lines, name)
		}
	}
	return due
}

func (s *several) shift(bucket string) time.Duration {
	for _, l := range s.limits {
		if b, ok, _ := s.store.Bucket(s.t.Context(), l.Name, key(bucket, l.Name)); ok && reservations.BucketName(l.Name, key(bucket, l.Name)) == bucket {
			return time.Duration(b.Shift * float64(time.Second))
		}
	}
	return 0
}

func key(bucket, limit string) string {
	if len(bucket) > len(limit) && bucket[:len(limit)+1] == limit+":" {
		return bucket[len(limit)+1:]
	}
	return ""
}

// goOn lets deliveries go on that have held for long enough.
func (s *several) goOn() {
	s.holding = slices.DeleteFunc(s.holding, func(r *resting) bool {
		more := true
		for more && !r.until.After(s.now) {
			r.until, more = r.next()
		}
		return !more
	})
}

// deliver is gate.begin without the world around it. Rest lets time pass.
func (s *several) deliver(v *virtual, rest func(time.Time) bool) {
	v.deliveries++
	cs := newClaims(v.charges)
	if s.random.Float64() < s.forget {
		v.held = nil
	}
	cs.recall(v.held)
	stopped, err := cs.admit(func(c *claim) (err error) {
		if ready := cs.ready(); ready.After(s.now) {
			rest(ready)
		}
		c.outcome, err = s.limiter.Begin(s.t.Context(), c.charge, c.place)
		c.decided, c.latest = s.now, s.now
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	if stopped != nil {
		giveBack := s.limiter.Yield
		if s.cancel {
			giveBack = func(ctx context.Context, c reservations.Charge) (reservations.Outcome, error) {
				return s.limiter.Cancel(ctx, c, "")
			}
		}
		for _, c := range cs.started() {
			if s.random.Float64() >= s.lose {
				s.must(giveBack(s.t.Context(), c.charge))
			}
		}
		cs.keep()
		v.held = append([]scheduler.Held{{Place: stopped.place, Bucket: stopped.charge.Bucket()}}, cs.others(stopped)...)
		s.stand(v)
		return
	}
	v.started, v.charged = cs.ready(), cs.charges()
	v.ends = v.started.Add(s.run)
	s.settles = append(s.settles, v)
	s.left--
	for _, c := range v.charged {
		s.counts[c.Bucket()] = append(s.counts[c.Bucket()], counted{v.started, c.Tokens})
	}
}

// stand lets the task stand in the line of the first place that it holds.
func (s *several) stand(v *virtual) {
	v.due = v.held[0].Due.Add(time.Duration(s.random.Float64() * float64(s.jitter)))
	line := fmt.Sprintf("%s@%d", v.held[0].Bucket, v.held[0].Generation)
	i, _ := slices.BinarySearchFunc(s.lines[line], v, func(a, b *virtual) int {
		if a.due.After(b.due) {
			return 1
		}
		return -1
	})
	s.lines[line] = slices.Insert(s.lines[line], i, v)
}

// reserve is what the scheduler does at enqueue.
func (s *several) reserve(v *virtual) {
	for _, c := range v.charges {
		o, err := s.limiter.Reserve(s.t.Context(), c)
		s.must(o, err)
		v.held = slices.Insert(v.held, 0, scheduler.Held{Place: o.Place(), Bucket: c.Bucket()})
		if o.Wait() > reservations.Hold {
			break
		}
	}
	s.stand(v)
}

// settle gives back what those did not use that have ended.
func (s *several) settle() {
	s.settles = slices.DeleteFunc(s.settles, func(v *virtual) bool {
		if v.ends.After(s.now) {
			return false
		}
		for _, c := range v.charged {
			used := reservations.Tokens{}
			if n, ok := c.Tokens["tokens"]; ok && s.used > 0 {
				used["tokens"] = n * s.used
				s.counts[c.Bucket()] = append(s.counts[c.Bucket()], counted{v.ends, reservations.Tokens{"tokens": n*s.used - n}})
			}
			s.must(s.limiter.Settle(context.Background(), c, used, ""))
		}
		return true
	})
}

func (s *several) must(_ reservations.Outcome, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// figures are what a simulation is judged by.
type figures struct {
	mean   float64 // deliveries a task
	most   int
	util   float64                  // of the limit that is used most: the least possible time until the last start, divided by the real one
	over   float64                  // fullest window of any bucket, as a share of what may start in it
	exact  float64                  // that of the provider
	last   map[string]time.Duration // start of each tenant's last task
	lost   float64                  // most places that a task lost among those of its tenant, in % of them
	gap    float64                  // places that nobody has any more at the end, in seconds of a limit
	leaked float64                  // most that any ledger lacks a day later
}

func (s *several) figures() figures {
	f := figures{last: map[string]time.Duration{}}
	start := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	mine := map[string][]*virtual{}
	end := time.Duration(0)
	for _, v := range s.tasks {
		f.mean += float64(v.deliveries) / float64(len(s.tasks))
		f.most = max(f.most, v.deliveries)
		if v.started.IsZero() {
			s.t.Fatalf("a task of %s never started", v.tenant)
		}
		f.last[v.tenant] = max(f.last[v.tenant], v.started.Sub(start))
		end = max(end, f.last[v.tenant])
		mine[v.tenant] = append(mine[v.tenant], v)
	}
	end -= s.away[1] - s.away[0] + s.block[1]
	for _, l := range s.limits {
		for bucket, counts := range s.counts {
			if bucket != l.Name && key(bucket, l.Name) == "" {
				continue
			}
			for _, m := range l.Meters {
				total := 0.
				for _, c := range counts {
					total += c.n[m.Name]
				}
				f.util = max(f.util, (total-m.Cap())/m.RatePerSecond()/end.Seconds())
				f.over = max(f.over, fullest(counts, m, reservations.Hold))
				if l.Name == "provider" {
					f.exact = max(f.exact, fullest(counts, m, 0))
				}
			}
		}
	}
	for _, vs := range mine {
		order := slices.Clone(vs)
		slices.SortStableFunc(order, func(a, b *virtual) int { return a.started.Compare(b.started) })
		for place, v := range order {
			f.lost = max(f.lost, 100*float64(place-slices.Index(vs, v))/float64(len(vs)))
		}
	}
	f.gap = s.gap()
	s.now = s.now.Add(24 * time.Hour)
	f.leaked = s.lacking()
	return f
}

// eachLedger calls f with all ledgers as they are now, and their meter.
func (s *several) eachLedger(f func(m reservations.Meter, ledgers [reservations.LedgerCount]float64)) {
	for _, l := range s.limits {
		for bucket := range s.counts {
			b, ok, _ := s.store.Bucket(s.t.Context(), l.Name, key(bucket, l.Name))
			if !ok {
				continue
			}
			b, _ = reservations.Step(b, l, s.now, reservations.Request{Op: reservations.OpSettle, Tokens: make([]float64, len(l.Meters))})
			for k, m := range l.Meters {
				f(m, b.Meters[k].Ledgers)
			}
		}
	}
}

// gap is the most that a line lacks of what was not started, in seconds: places that nobody has any more.
func (s *several) gap() (most float64) {
	s.eachLedger(func(m reservations.Meter, ledgers [reservations.LedgerCount]float64) {
		most = max(most, (ledgers[reservations.LedgerUse]-ledgers[reservations.LedgerLine])/m.RatePerSecond())
	})
	return most
}

// lacking is the most that any ledger lacks.
func (s *several) lacking() (most float64) {
	s.eachLedger(func(m reservations.Meter, ledgers [reservations.LedgerCount]float64) {
		for _, x := range ledgers {
			most = max(most, math.Abs(m.Cap()-x))
		}
	})
	return most
}

func (f figures) String() string {
	return fmt.Sprintf("%.2f deliveries a task, at most %d, used %.3f, fullest %.3f, the provider's %.3f, places lost %.1f %%, gap %.2f s, leaked %g", f.mean, f.most, f.util, f.over, f.exact, f.lost, f.gap, f.leaked)
}

// fullest is the fullest window, as a share of what may start in it and the grace.
func fullest(counts []counted, m reservations.Meter, grace time.Duration) (over float64) {
	counts = slices.Clone(counts)
	slices.SortStableFunc(counts, func(a, b counted) int { return a.at.Compare(b.at) })
	for _, window := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
		first, sum := 0, 0.
		for _, c := range counts {
			sum += c.n[m.Name]
			for ; c.at.Sub(counts[first].at) > window; first++ {
				sum -= counts[first].n[m.Name]
			}
			over = max(over, sum/(m.Cap()+m.RatePerSecond()*(window+grace).Seconds()))
		}
	}
	return over
}
