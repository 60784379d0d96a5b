package metrics_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/metrics"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/scheduler"
)

// call charges the limit "api", which lets nothing start for an hour after ten tokens.
type call struct {
	Key  string
	Cost float64
}

func (call) TaskType() string { return "call" }

func (c call) Charges() []reservations.Charge {
	return []reservations.Charge{{Limit: "api", Key: c.Key, Tokens: reservations.Tokens{"tokens": c.Cost}}}
}

// bundle is a fleet with metrics.
type bundle struct {
	redis    *memredis.Server // nil outside of bubbles
	client   redis.UniversalClient
	limiter  *reservations.Limiter
	sched    *scheduler.Scheduler
	metrics  *metrics.Metrics
	registry *prometheus.Registry
}

// newBundle returns a fleet on a Redis of its own, within a bubble.
func newBundle(t *testing.T, config metrics.Config) *bundle {
	t.Helper()
	server := memredis.Serve(t)
	b := bundleOf(t, server.Client(t), config)
	b.redis = server
	return b
}

// bundleOf returns a fleet on the Redis of a client.
func bundleOf(tb testing.TB, client redis.UniversalClient, config metrics.Config) *bundle {
	tb.Helper()
	b := &bundle{registry: registryOf(tb)}
	config.Logger = slog.New(slog.DiscardHandler)
	b.metrics = metrics.New(config)
	b.client = client
	b.client.AddHook(b.metrics.RedisHook())
	var err error
	b.limiter, err = reservations.New(b.metrics.Store(memstore.New()), []reservations.Limit{{
		Name: "api", MaxWait: 0,
		Meters: []reservations.Meter{
			{Name: "tokens", Rate: 1, Period: time.Minute, Capacity: 10},
		},
	}}, reservations.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	if b.sched, err = scheduler.New(b.client, b.limiter, scheduler.Config{}); err != nil {
		tb.Fatal(err)
	}
	if err = b.metrics.Watch(b.client, b.limiter); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(b.metrics.Close)
	b.registry.MustRegister(b.metrics)
	return b
}

// registryOf returns a registry that checks what it collects; in a benchmark it does not, as in production.
func registryOf(tb testing.TB) *prometheus.Registry {
	tb.Helper()
	if _, measures := tb.(*testing.B); measures {
		return prometheus.NewRegistry()
	}
	return prometheus.NewPedanticRegistry()
}

// enqueue gives a task a place in the waitlist of its bucket.
func (b *bundle) enqueue(tb testing.TB, c call) {
	tb.Helper()
	if _, err := b.sched.Enqueue(tb.Context(), c); err != nil {
		tb.Fatal(err)
	}
}

// gather returns all metrics by name, after a fresh read of the fleet.
func (b *bundle) gather(tb testing.TB) map[string]*dto.MetricFamily {
	tb.Helper()
	b.metrics.Read(context.WithoutCancel(tb.Context()))
	return gather(tb, b.registry)
}

func gather(tb testing.TB, from prometheus.Gatherer) map[string]*dto.MetricFamily {
	tb.Helper()
	families, err := from.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	all := map[string]*dto.MetricFamily{}
	for _, f := range families {
		all[f.GetName()] = f
	}
	return all
}

// await polls, because metrics send no event.
func await(tb testing.TB, what string, done func() bool) {
	tb.Helper()
	for patience := time.Now().Add(3 * time.Minute); !done(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(patience) {
			tb.Fatalf("not in 3 minutes: %s", what)
		}
	}
}

// awaitUp gathers until the services are up, 1, or down, 0.
func awaitUp(
	tb testing.TB, gather func() map[string]*dto.MetricFamily, redis, buckets float64,
) (got map[string]*dto.MetricFamily) {
	tb.Helper()
	await(tb, fmt.Sprintf("redis %v, buckets %v", redis, buckets), func() bool {
		got = gather()
		r, found := value(got["headway_up"], "redis")
		b, both := value(got["headway_up"], "buckets")
		return found && both && r == redis && b == buckets
	})
	return got
}

// value is that of the metric with these label values, in the order of the labels' names. It is false if there is none.
func value(f *dto.MetricFamily, labels ...string) (float64, bool) {
	for _, m := range f.GetMetric() {
		values := make([]string, 0, len(labels))
		for _, l := range m.GetLabel() {
			values = append(values, l.GetValue())
		}
		if slices.Equal(values, labels) {
			return m.GetCounter().GetValue() + m.GetGauge().GetValue() +
				float64(m.GetHistogram().GetSampleCount()), true
		}
	}
	return 0, false
}

func wantValue(t *testing.T, all map[string]*dto.MetricFamily, want float64, name string, labels ...string) {
	t.Helper()
	if got, ok := value(all[name], labels...); !ok || got != want {
		t.Errorf("%s{%s} is %v (found: %v), want %v", name, strings.Join(labels, ","), got, ok, want)
	}
}
