package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/metrics"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/worker"
)

// Names that other programs have written to Redis, or tasks have, end no scrape and no process, and stay short.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, metrics.Config{Keys: map[string]int{"api": 10}})
		long := strings.Repeat("x", 1<<20)
		for _, key := range []string{"a", "a\"b\\c", "other"} {
			b.enqueue(t, call{Key: key, Cost: 10})
			b.enqueue(t, call{Key: key, Cost: 10})
		}
		b.enqueue(t, call{Cost: 10})
		b.enqueue(t, call{Cost: 10})
		others := b.redis.Client(t).Pipeline() // of other programs
		for i := range 500 {
			others.HSet(t.Context(), "headway:{wait}:sums:api", fmt.Sprintf("meter%d\xff", i), "5")
		}
		others.SAdd(t.Context(), "asynq:queues", "\xff", "\xfe", "a\nb", long)
		for _, key := range []string{"\xff", "\xfe", "a\x01b"} {
			for i := range 2 {
				name := fmt.Sprintf("default/%x%d", key, i)
				others.HSet(t.Context(), "headway:{wait}:task:"+name, "bucket", "api:"+key, "tag", "1", "tokens", "{}")
				others.ZAdd(t.Context(), "headway:{wait}:promoted:api:"+key, redis.Z{Score: 1, Member: name})
			}
			others.ZAdd(t.Context(), "headway:{wait}:index", redis.Z{Score: 1, Member: "api:" + key})
		}
		if _, err := others.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
		e := b.metrics.Event
		finish := worker.Event{Charges: call{Cost: 1}.Charges(), Kind: worker.KindSucceeded}
		for _, used := range []float64{math.Inf(1), math.NaN(), -5, 7} {
			finish.Used = reservations.Tokens{"tokens": used}
			e(finish)
		}
		for i := range 100 {
			e(worker.Event{
				Kind: worker.KindRejected, Task: worker.TaskRef{Queue: strconv.Itoa(i) + long, Type: strconv.Itoa(i) + long},
				Err: errors.New("no handler"),
			})
		}
		b.gather(t)
		size, got := 0, b.gather(t) // now with the buckets of the keys that have labels
		wantValue(t, got, 7, "headway_tokens_settled_total", "", "api", "tokens")
		wantValue(t, got, 1, "headway_up", "buckets")
		for name, f := range got {
			if n := len(f.GetMetric()); n > 400 {
				t.Errorf("%d series of %s", n, name)
			}
			size += len(f.String())
		}
		if size > 200_000 {
			t.Errorf("a scrape has %d bytes", size)
		}
	})
}

// A program that resolves limits by name makes no more series than there are labels.
func TestBoundsLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, metrics.Config{})
		for i := range 2000 {
			charge := reservations.Charge{Limit: "limit" + strconv.Itoa(i)}
			b.metrics.Event(worker.Event{Kind: worker.KindDeferred, Charge: charge, Err: reservations.ErrUnavailable})
			b.metrics.Event(worker.Event{Kind: worker.KindStarted, Charges: []reservations.Charge{charge}})
		}
		got := b.gather(t)
		wantValue(t, got, 1500, "headway_starts_total", "", "other")
		wantValue(t, got, 1, "headway_starts_total", "", "limit499")
		for name, f := range got {
			if n := len(f.GetMetric()); n > 501 {
				t.Errorf("%d series of %s", n, name)
			}
		}
	})
}

// corrupt is a store one of whose buckets can't be read.
type corrupt struct{ reservations.Store }

func (c corrupt) Update(ctx context.Context, _, _ string, change reservations.Change) error {
	return bucket.Serve(ctx, change, bucket.Applier(c.Store), c.Load)
}

func (c corrupt) Load(ctx context.Context, limit, key string) (bucket.Bucket, time.Time, error) {
	if key == "evil" {
		return bucket.Bucket{}, time.Time{}, &bucket.UnavailableError{
			Bucket: key, BucketOnly: true, Err: errors.New("corrupt"),
		}
	}
	return bucket.Read(ctx, c.Store, limit, key)
}

// One bucket that can't be read hides no other one, and is no outage of the store.
func TestCorruptBucketsHideNoOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, metrics.Config{})
		m := metrics.New(metrics.Config{Keys: map[string]int{"api": 5}, Logger: slog.New(slog.DiscardHandler)})
		t.Cleanup(m.Close)
		limiter, err := reservations.New(corrupt{memstore.New()}, []reservations.Limit{
			{Name: "api", Meters: []reservations.Meter{reservations.PerMinute("tokens", 60)}},
		}, reservations.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if err = m.Watch(b.client, limiter); err != nil {
			t.Fatal(err)
		}
		s, err := scheduler.New(b.client, limiter, scheduler.Config{})
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"evil", "good", "evil", "good"} {
			if _, err = s.Enqueue(t.Context(), call{Key: key, Cost: 60}); err != nil {
				t.Fatal(err)
			}
		}
		m.Read(context.WithoutCancel(t.Context()))
		m.Read(context.WithoutCancel(t.Context())) // the keys of the first read
		registry := registryOf(t)
		registry.MustRegister(m)
		got := gather(t, registry)
		wantValue(t, got, 1, "headway_up", "buckets")
		if _, found := value(got["headway_meter_level_tokens"], "good", "api", "tokens"); !found {
			t.Error("the good bucket is missing")
		}
		if _, found := value(got["headway_meter_level_tokens"], "evil", "api", "tokens"); found {
			t.Error("the corrupt bucket has a level")
		}
	})
}
