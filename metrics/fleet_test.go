package metrics_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/state"
	"github.com/headway-go/headway/internal/test/network"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/metrics"
	"github.com/headway-go/headway/reservations"
)

// failing is a store that is away.
type failing struct{ reservations.Store }

func (s failing) Update(ctx context.Context, _, _ string, change reservations.Change) error {
	return bucket.Serve(ctx, change, bucket.Applier(s.Store), s.Load)
}

func (failing) Load(context.Context, string, string) (bucket.Bucket, time.Time, error) {
	return bucket.Bucket{}, time.Time{}, reservations.ErrUnavailable
}

// hung is a store that never answers.
type hung struct {
	reservations.Store

	asked chan struct{}
}

func (h hung) Update(ctx context.Context, _, _ string, change reservations.Change) error {
	return bucket.Serve(ctx, change, bucket.Applier(h.Store), h.Load)
}

func (h hung) Load(ctx context.Context, _, _ string) (bucket.Bucket, time.Time, error) {
	select {
	case h.asked <- struct{}{}:
	default:
	}
	<-ctx.Done()
	return bucket.Bucket{}, time.Time{}, ctx.Err()
}

// The gauges are what `limits show` prints.
func TestShowsTheFleet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, metrics.Config{Keys: map[string]int{"api": 5}})
		testenv.Serve(t, b.client, "default")
		for range 3 {
			b.enqueue(t, call{Key: "acme", Cost: 10})
		}
		b.enqueue(t, call{Cost: 10})
		if _, err := inside.Of(b.limiter).Block(t.Context(), reservations.Charge{Limit: "api"}, time.Minute); err != nil {
			t.Fatal(err)
		}
		quota := &reservations.RetryAfterError{Reason: reservations.ReasonQuota}
		acme := reservations.Charge{Limit: "api", Key: "acme"}
		if _, err := inside.Of(b.limiter).Refuse(t.Context(), acme, quota, "", time.Time{}); err != nil {
			t.Fatal(err)
		}
		now := float64(time.Now().UnixMilli()) / 1000
		got := b.gather(t)
		wantValue(t, got, 1, "headway_bucket_stopped", "acme", "api", "quota")
		wantValue(t, got, 0, "headway_bucket_stopped", "acme", "api", "key")
		wantValue(t, got, 0, "headway_bucket_stopped", "", "api", "quota")
		shown, err := state.Reader{Limiter: b.limiter, Scheduler: b.sched}.One(t.Context(), "api", "acme")
		if err != nil {
			t.Fatal(err)
		}
		m := shown.Meters[0]
		wantValue(t, got, float64(shown.Waiting), "headway_waitlist_tasks", "acme", "api", "waiting")
		wantValue(t, got, m.Waiting, "headway_waitlist_tokens", "acme", "api", "tokens")
		wantValue(t, got, m.Capacity, "headway_meter_capacity_tokens", "acme", "api", "tokens")
		wantValue(t, got, 3600, "headway_waitlist_wait_goal_seconds", "api")
		wantValue(t, got, 4, "headway_queue_tasks", "default", "scheduled")
		wantValue(t, got, 0, "headway_dispatcher_on_duty")
		wantValue(t, got, 1, "headway_up", "redis")
		wantValue(t, got, 1, "headway_up", "buckets")
		wantValue(t, got, m.Level, "headway_meter_level_tokens", "acme", "api", "tokens")
		wantValue(t, got, m.Promised, "headway_meter_reserved_tokens", "acme", "api", "tokens")
		other, err := state.Reader{Limiter: b.limiter, Scheduler: b.sched}.One(t.Context(), "api", "")
		if err != nil || other.EndIn == nil {
			t.Fatal(other, err)
		}
		end, _ := value(got["headway_waitlist_end_timestamp_seconds"], "", "api")
		if in := end - now; math.Abs(in-*other.EndIn) > .001 {
			t.Errorf("the waitlist ends in %v s, limits show says %v", in, *other.EndIn)
		}
		until, _ := value(got["headway_bucket_blocked_until_timestamp_seconds"], "", "api")
		if in := until - now; math.Abs(in-60) > .001 {
			t.Errorf("blocked for %v s", in)
		}
		again, _ := value(got["headway_bucket_blocked_until_timestamp_seconds"], "acme", "api")
		if again < now {
			t.Errorf("the bucket that is out of quota is asked again at %v", again)
		}
	})
}

// While Redis is down, a scrape has its metrics for half a minute, and the metrics of the buckets all the time.
func TestRedisIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, metrics.Config{})
		await(t, "ready", func() bool { return b.metrics.Ready() == nil })
		b.redis.Wire.Set(network.Refuse)
		got := awaitUp(t, func() map[string]*dto.MetricFamily { return b.gather(t) }, 0, 1)
		if got["headway_dispatcher_on_duty"] == nil {
			t.Error("the state of just now is left out")
		}
		<-time.After(31 * time.Second)
		got = b.gather(t)
		if got["headway_dispatcher_on_duty"] != nil || got["headway_queue_tasks"] != nil {
			t.Error("stale state of Redis is exported")
		}
		wantValue(t, got, 1, "headway_up", "buckets")
		if n, _ := value(got["headway_redis_errors_total"], "dial"); n == 0 {
			t.Error("no failed dial is counted")
		}
		if err := b.metrics.Ready(); err == nil {
			t.Error("ready without Redis")
		}
	})
}

// A store that hangs counts as down, and no scrape waits for it.
func TestStoreHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, metrics.Config{})
		asked := make(chan struct{}, 1)
		limiter, err := reservations.New(hung{asked: asked}, []reservations.Limit{{
			Name: "api", Meters: []reservations.Meter{reservations.PerSecond("tokens", 1)},
		}}, reservations.Config{CallTimeout: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.metrics.Watch(b.client, limiter); err != nil {
			t.Fatal(err)
		}
		awaitUp(t, func() map[string]*dto.MetricFamily { return gather(t, b.registry) }, 1, 0)
		<-asked
		if err := b.metrics.Ready(); !errors.Is(err, metrics.ErrNoAnswer) {
			t.Errorf("ready: %v", err)
		}
	})
}
