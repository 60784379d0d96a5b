package e2e_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/headwaytest"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// both is a fleet that runs in virtual time, and with a real Redis in real time: a backlog of calls.
type both struct {
	count    int
	rate     float64 // a second
	capacity float64
}

// numbered is a call of both.
type numbered struct {
	N int `json:"n"`
}

func (numbered) TaskType() string { return "numbered" }
func (numbered) Charges() []reservations.Charge {
	return []reservations.Charge{{Limit: "api", Tokens: reservations.Tokens{"requests": 1}}}
}

// lasts is how long a call takes: 50 ms to 1.5 s.
func (n numbered) lasts() time.Duration { return time.Duration(50+n.N*613%1450) * time.Millisecond }

func (b both) limit() reservations.Limit {
	m := reservations.PerSecond("requests", b.rate)
	m.Capacity = b.capacity
	return reservations.Limit{Name: "api", Meters: []reservations.Meter{m}}
}

// observed is what a fleet did.
type observed struct {
	mu         sync.Mutex // guards what is below
	began      time.Time
	starts     map[int]time.Duration // first ones, by number
	deliveries int
	done       int
	all        chan struct{} // closed when all are done
}

func (b both) observed() *observed {
	return &observed{starts: map[int]time.Duration{}, all: make(chan struct{})}
}

// handle registers the handler of a worker.
func (b both) handle(w *worker.Worker, o *observed) {
	worker.Handle(w, func(ctx context.Context, job *worker.Job[numbered]) error {
		o.mu.Lock()
		if _, again := o.starts[job.Args.N]; !again {
			o.starts[job.Args.N] = time.Since(o.began)
		}
		o.mu.Unlock()
		select {
		case <-time.After(job.Args.lasts()):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// config has the events of a worker counted.
func (b both) config(o *observed) worker.Config {
	return worker.Config{Logger: slog.New(slog.DiscardHandler), Events: []func(worker.Event){func(e worker.Event) {
		o.mu.Lock()
		defer o.mu.Unlock()
		switch e.Kind { //nolint:exhaustive // the others are no deliveries
		case worker.KindStarted, worker.KindDeferred:
			o.deliveries++
		case worker.KindSucceeded:
			if o.done++; o.done == b.count {
				close(o.all)
			}
		}
	}}}
}

// virtual runs the fleet in virtual time.
func (b both) virtual(t *testing.T) (o *observed) {
	t.Helper()
	headwaytest.Run(t, func(f *headwaytest.Fleet) {
		o = b.observed()
		f.Workers(fleet, func(w *worker.Worker) { b.handle(w, o) }, b.config(o))
		f.Run(3 * time.Second)
		o.began = time.Now()
		f.Backlog(b.count, func(n int) tasks.Args { return numbered{N: n} })
		<-o.all
	}, headwaytest.Limits(b.limit()), headwaytest.Network(100*time.Microsecond, 300*time.Microsecond))
	return o
}

// real runs the fleet with a Redis of its own.
func (b both) real(tb testing.TB) *observed {
	tb.Helper()
	o, store, address := b.observed(), memstore.New(), testenv.StartRedisServer(tb).Addr()
	limiter := func() (*redis.Client, *reservations.Limiter) {
		client := redis.NewClient(&redis.Options{Addr: address})
		tb.Cleanup(func() { _ = client.Close() })
		l, err := reservations.New(store, []reservations.Limit{b.limit()}, reservations.Config{})
		if err != nil {
			tb.Fatal(err)
		}
		return client, l
	}
	for range fleet {
		client, l := limiter()
		w, err := worker.New(client, l, b.config(o))
		if err != nil {
			tb.Fatal(err)
		}
		b.handle(w, o)
		if err = w.Start(tb.Context()); err != nil {
			tb.Fatal(err)
		}
		defer func() { _ = w.Stop(context.WithoutCancel(tb.Context())) }() // all tasks have ended
	}
	client, l := limiter()
	s, err := scheduler.New(client, l, scheduler.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	var all []tasks.Args
	for n := range b.count {
		all = append(all, numbered{N: n})
	}
	o.began = time.Now()
	if _, err = s.EnqueueMany(tb.Context(), all); err != nil {
		tb.Fatal(err)
	}
	select {
	case <-o.all:
	case <-time.After(patience):
		tb.Fatalf("%d of %d tasks done", o.done, b.count)
	}
	return o
}

// numbers are the figures of a fleet.
type numbers struct {
	last, p50, p90  time.Duration // the last start, and waits
	use, deliveries float64
}

func (b both) numbers(o *observed) (n numbers) {
	var waits []time.Duration
	for _, at := range o.starts {
		waits = append(waits, at)
	}
	slices.Sort(waits)
	n.last, n.p50, n.p90 = waits[len(waits)-1], waits[len(waits)/2], waits[len(waits)*9/10]
	n.use = float64(b.count) / (b.capacity + b.rate*n.last.Seconds())
	n.deliveries = float64(o.deliveries) / float64(b.count)
	return n
}

// A fleet in real time is no faster than in virtual time, where no time is lost, whatever a busy machine does.
// BenchmarkVirtualAndReal prints how close they are.
func TestVirtualIsNotSlower(t *testing.T) {
	t.Parallel()
	b := both{count: 100, rate: 20, capacity: 5}
	virtual, actual := b.numbers(b.virtual(t)), b.numbers(b.real(t))
	t.Logf("virtual %+v, real %+v", virtual, actual)
	least := func(d time.Duration) time.Duration { return d*98/100 - 50*time.Millisecond }
	if actual.last < least(virtual.last) || actual.p50 < least(virtual.p50) || actual.p90 < least(virtual.p90) ||
		actual.use > 1.001 || virtual.use > 1.001 || virtual.use < .98 || actual.deliveries < 1 || virtual.deliveries > 2 {
		t.Errorf("virtual %+v, real %+v", virtual, actual)
	}
}

// BenchmarkVirtualAndReal prints one fleet both ways. Run it with -benchtime 1x on a quiet machine.
func BenchmarkVirtualAndReal(b *testing.B) {
	for b.Loop() {
		compare(b, both{count: 300, rate: 10, capacity: 10})
	}
}

// compare prints the figures of a fleet both ways.
func compare(b *testing.B, f both) {
	b.Helper()
	var virtual numbers
	run := testing.InternalTest{Name: b.Name(), F: func(t *testing.T) {
		t.Helper()
		virtual = f.numbers(f.virtual(t))
	}}
	if !testing.RunTests(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{run}) {
		b.FailNow()
	}
	actual := f.numbers(f.real(b))
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	row := func(name, format string, v, r float64) {
		fmt.Fprintf(w, "%s\t"+format+"\t"+format+"\t%+.2f %%\n", name, v, r, 100*(r/v-1))
	}
	fmt.Fprintln(w, "\tvirtual\treal\tdifference")
	row("last start, s", "%.3f", virtual.last.Seconds(), actual.last.Seconds())
	row("use of the limit, %", "%.2f", 100*virtual.use, 100*actual.use)
	row("wait p50, s", "%.3f", virtual.p50.Seconds(), actual.p50.Seconds())
	row("wait p90, s", "%.3f", virtual.p90.Seconds(), actual.p90.Seconds())
	row("deliveries a task", "%.3f", virtual.deliveries, actual.deliveries)
	_ = w.Flush() // a strings.Builder never fails
	b.Log("\n" + text.String())
	b.ReportMetric(100*(actual.p90.Seconds()/virtual.p90.Seconds()-1), "%-p90")
}
