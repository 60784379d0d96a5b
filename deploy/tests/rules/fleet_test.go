package rules_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/metrics"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/worker"
	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/redis/go-redis/v9"
)

// call takes ten tokens of the limit "api", which has one a minute.
type call struct{}

func (call) TaskType() string { return "call" }

func (call) Charges() []reservations.Charge {
	return []reservations.Charge{{Limit: "api", Tokens: reservations.Tokens{"tokens": 10}}}
}

// fleet is a process whose metrics are scraped.
type fleet struct {
	t         *testing.T
	redis     *miniredis.Miniredis
	client    redis.UniversalClient
	limiter   *reservations.Limiter
	scheduler *scheduler.Scheduler
	events    func(worker.Event)
	registry  *prometheus.Registry
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{t: t, redis: miniredis.RunT(t), registry: prometheus.NewRegistry()}
	quiet := slog.New(slog.DiscardHandler)
	client := redis.NewClient(&redis.Options{Addr: f.redis.Addr(), MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	m := metrics.New(metrics.Config{Refresh: 20 * time.Millisecond, Stale: 5 * time.Second, Logger: quiet})
	limiter, err := reservations.New(m.Store(memstore.New()), []reservations.Limit{{
		Name: "api", Meters: []reservations.Meter{
			{Name: "tokens", Rate: 1, Period: time.Minute, Capacity: 10},
		},
	}}, reservations.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if f.scheduler, err = scheduler.New(client, limiter, scheduler.Config{Logger: quiet}); err != nil {
		t.Fatal(err)
	}
	if err = m.Watch(client, limiter); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	f.client, f.limiter = client, limiter
	f.registry.MustRegister(m)
	f.events = m.Event
	return f
}

// dispatch has a dispatcher on duty until the test ends.
func (f *fleet) dispatch() {
	f.t.Helper()
	if err := f.scheduler.Start(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(f.t.Context()), time.Minute)
		defer cancel()
		if err := f.scheduler.Stop(ctx); err != nil {
			f.t.Error(err)
		}
	})
}

// serve has a server of asynq take from the queue.
func (f *fleet) serve() {
	f.t.Helper()
	server := asynq.NewServerFromRedisClient(f.client, asynq.Config{LogLevel: asynq.FatalLevel})
	if err := server.Start(asynq.NewServeMux()); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(server.Shutdown)
}

// pause pauses the queue.
func (f *fleet) pause() {
	f.t.Helper()
	if err := asynq.NewInspectorFromRedisClient(f.client).PauseQueue("default"); err != nil {
		f.t.Fatal(err)
	}
}

// refuse stops the limit, since the provider says that its quota is used up.
func (f *fleet) refuse() {
	f.t.Helper()
	f.end(&reservations.RetryAfterError{Reason: reservations.ReasonQuota})
}

// block stops the limit, since the provider says when it wants the next call.
func (f *fleet) block(d time.Duration) {
	f.t.Helper()
	f.end(&reservations.RetryAfterError{After: d})
}

// end ends a call of the limit by a refusal.
func (f *fleet) end(refusal *reservations.RetryAfterError) {
	f.t.Helper()
	if _, err := inside.Of(f.limiter).Refuse(f.t.Context(), call{}.Charges()[0], refusal, "", time.Time{}); err != nil {
		f.t.Fatal(err)
	}
}

// wait enqueues tasks that wait in the waitlist, ten minutes apart.
func (f *fleet) wait(n int) {
	f.t.Helper()
	for range n {
		if _, err := f.scheduler.Enqueue(f.t.Context(), call{}); err != nil {
			f.t.Fatal(err)
		}
	}
}

// calls makes n calls. The first refused of them are refused.
func (f *fleet) calls(n, refused int) {
	for i := range n {
		task := worker.TaskRef{ID: "task", Queue: "default", Type: "call"}
		charges := call{}.Charges()
		f.events(worker.Event{Kind: worker.KindStarted, Task: task, Charges: charges})
		end := worker.Event{Task: task, Charges: charges, Kind: worker.KindSucceeded}
		if i < refused {
			end.Kind, end.Err = worker.KindRefused, errRefused
		}
		f.events(end)
	}
}

// until scrapes until the metric, or that with this value of a label, has the value.
func (f *fleet) until(name, label string, want float64) {
	f.t.Helper()
	timeout := time.NewTimer(time.Minute)
	defer timeout.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		families, err := f.registry.Gather()
		if err != nil {
			f.t.Fatal(err)
		}
		for _, family := range families {
			for _, m := range family.GetMetric() {
				labelled := label == "" ||
					slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetValue() == label })
				if family.GetName() == name && labelled && m.GetGauge().GetValue() == want {
					return
				}
			}
		}
		select {
		case <-tick.C:
		case <-timeout.C:
			f.t.Fatalf("%s{%s} is not %v", name, label, want)
		}
	}
}
