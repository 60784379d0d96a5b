package metrics_test

import (
	"context"
	"log/slog"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/metrics"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// free is a task without a limit.
type free struct{ N int }

func (free) TaskType() string { return "free" }

// backlogOf is how many tasks one round of BenchmarkOverhead processes.
const backlogOf = 20_000

// cost is what a backlog took.
type cost struct{ wall, cpu time.Duration }

// BenchmarkOverhead compares the throughput of a backlog without a limit: with metrics and with traces of which 1 % are
// sampled, and without both. The two take turns, and take turns at being first, so a machine that is busy for a while
// slows both. It reports the medians of the ratios of the pairs: of the time, and of the CPU time of this process,
// which other processes disturb less. Run it with -benchtime 9x.
func BenchmarkOverhead(b *testing.B) {
	addr := testenv.StartRedisServer(b).Addr()
	process(b, addr, true) // the first one is slower
	var wall, cpu []float64
	for i := range b.N {
		took := map[bool]cost{}
		for _, observed := range []bool{i%2 == 0, i%2 != 0} {
			took[observed] = process(b, addr, observed)
		}
		wall = append(wall, 100*took[false].wall.Seconds()/took[true].wall.Seconds())
		cpu = append(cpu, 100*took[false].cpu.Seconds()/took[true].cpu.Seconds())
		b.Logf("%.0f tasks/s without, %.0f with: %.1f %%; CPU of a task %v, %v: %.1f %%",
			backlogOf/took[false].wall.Seconds(), backlogOf/took[true].wall.Seconds(), wall[i],
			took[false].cpu/backlogOf, took[true].cpu/backlogOf, cpu[i])
	}
	slices.Sort(wall)
	slices.Sort(cpu)
	b.ReportMetric(wall[len(wall)/2], "%_of_throughput")
	b.ReportMetric(cpu[len(cpu)/2], "%_by_cpu")
}

// cpuTime is what this process has used.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// process is what a backlog costs a worker.
func process(b *testing.B, addr string, observed bool) cost {
	b.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = client.Close() }()
	config := worker.Config{Logger: slog.New(slog.DiscardHandler)}
	var provider trace.TracerProvider = noop.NewTracerProvider()
	if observed {
		sdk := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.01))),
			sdktrace.WithBatcher(tracetest.NewNoopExporter()))
		defer func() { _ = sdk.Shutdown(context.WithoutCancel(b.Context())) }()
		m := metrics.New(metrics.Config{})
		client.AddHook(m.RedisHook())
		config.Events, provider = []func(worker.Event){m.Event}, sdk
	}
	config.Scheduler.Tracer = provider
	enqueue(b, client, provider)
	var left atomic.Int64
	left.Store(backlogOf)
	done := make(chan struct{})
	config.Events = append(config.Events, func(e worker.Event) {
		if e.Ended() && left.Add(-1) == 0 {
			close(done)
		}
	})
	w, err := worker.New(client, nil, config)
	if err != nil {
		b.Fatal(err)
	}
	worker.Handle(w, func(context.Context, *worker.Job[free]) error { return nil })
	runtime.GC()
	began, before := time.Now(), cpuTime(b)
	if err := w.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	<-done
	took := cost{wall: time.Since(began), cpu: cpuTime(b) - before}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.Context()), time.Minute)
	defer cancel()
	if err := w.Stop(ctx); err != nil {
		b.Fatal(err)
	}
	return took
}

// enqueue sends the backlog.
func enqueue(b *testing.B, client redis.UniversalClient, provider trace.TracerProvider) {
	b.Helper()
	s, err := scheduler.New(client, nil, scheduler.Config{Tracer: provider})
	if err != nil {
		b.Fatal(err)
	}
	many := make([]tasks.Args, backlogOf)
	for i := range many {
		many[i] = free{N: i}
	}
	if _, err := s.EnqueueMany(b.Context(), many); err != nil {
		b.Fatal(err)
	}
}
