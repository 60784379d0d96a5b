package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// adopt runs a plain asynq server with limits. Tasks of a type with a colon are not charged.
func (b *bundle) adopt(config asynq.Config, handler asynq.HandlerFunc) {
	b.t.Helper()
	limits, err := worker.Adopt(b.client, b.limiter, worker.Config{
		Charge: func(t *asynq.Task) ([]reservations.Charge, error) {
			if strings.Contains(t.Type(), ":") {
				return nil, nil
			}
			switch t.Type() {
			case "both":
				return both{Tenant: "a", Cost: 10}.Charges(), nil
			case "twice":
				return append(both{Cost: 10}.Charges(), both{Cost: 1}.Charges()...), nil
			}
			return []reservations.Charge{{Limit: "api", Tokens: reservations.Tokens{"tokens": 10}}}, nil
		},
		Logger: slog.New(slog.DiscardHandler), Events: b.events(),
	})
	if err != nil {
		b.t.Fatal(err)
	}
	config.LogLevel = asynq.FatalLevel
	server := limits.Server(config)
	mux := asynq.NewServeMux()
	mux.Use(limits.Middleware)
	mux.HandleFunc("chat", handler)
	mux.HandleFunc("mail:", handler)
	mux.HandleFunc("call", handler)
	mux.HandleFunc("both", handler)
	if err := limits.Start(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	if err := server.Start(mux); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		server.Shutdown()
		if err := limits.Stop(context.WithoutCancel(b.t.Context())); err != nil {
			b.t.Errorf("stop: %v", err)
		}
	})
}

func (b *bundle) send(t *asynq.Task, options ...asynq.Option) *asynq.TaskInfo {
	b.t.Helper()
	info, err := asynq.NewClientFromRedisClient(b.client).EnqueueContext(b.t.Context(), t, options...)
	if err != nil {
		b.t.Fatal(err)
	}
	return info
}

func TestAdoptedServerKeepsTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		b.store.refuse = 1
		complaints := make(chan error, 10)
		config := asynq.Config{
			IsFailure:    func(err error) bool { return !errors.Is(err, errUpstream) },
			ErrorHandler: asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task, err error) { complaints <- err }),
			RetryDelayFunc: func(int, error, *asynq.Task) time.Duration {
				return time.Hour
			},
		}
		b.adopt(config, func(ctx context.Context, _ *asynq.Task) error {
			worker.Use(ctx, reservations.Tokens{"tokens": 3})
			return errUpstream
		})
		info := b.send(asynq.NewTask("chat", nil))
		if f := receive(t, b.finishes); f.Kind != worker.KindFailed || f.Task.MaxRetry != 25 ||
			f.Charges[0].Limit != "api" {
			t.Errorf("finish %+v", f)
		}
		receive(t, b.settlements)
		if got := b.balance(); math.Abs(got-97) > 0.1 {
			t.Errorf("balance %v, want 97", got)
		}
		retry := b.info(info.ID, asynq.TaskStateRetry)
		if retry.Retried != 0 || (time.Until(retry.NextProcessAt)-time.Hour).Abs() > time.Second {
			t.Errorf("the program's own IsFailure and RetryDelayFunc must count: %+v", retry)
		}
		if err := receive(t, complaints); !errors.Is(err, errUpstream) || len(complaints) != 0 {
			t.Errorf("the error handler got %v and %d more", err, len(complaints))
		}
	})
}

func TestAdoptedServerLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		b.store.down = true
		types := make(chan string, 10)
		b.adopt(asynq.Config{}, func(_ context.Context, task *asynq.Task) error {
			types <- task.Type()
			return nil
		})
		b.send(asynq.NewTask("mail:send", nil))
		if got := receive(t, types); got != "mail:send" || len(b.starts) != 0 {
			t.Errorf("ran %q with %d events", got, len(b.starts))
		}
	})
}

func TestAdoptedServerTakesTasksOfHeadway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		b.adopt(asynq.Config{}, func(context.Context, *asynq.Task) error { return errUpstream })
		info := b.enqueue(call{Cost: 7}, tasks.Options{MaxRetry: tasks.NoRetry})
		if f := receive(t, b.finishes); f.Kind != worker.KindArchived || f.Charges[0].Tokens["tokens"] != 7 {
			t.Errorf("finish %+v", f)
		}
		b.info(info.ID, asynq.TaskStateArchived)
	})
}

func TestTaskWithoutAHandlerIsNotCharged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		b.adopt(asynq.Config{}, func(context.Context, *asynq.Task) error { return nil })
		b.send(asynq.NewTask("unheard", nil))
		receive(t, b.settlements)
		if got := b.balance(); math.Abs(got-100) > 0.1 {
			t.Errorf("balance %v, want 100", got)
		}
	})
}

func TestForeignTaskWaitsOnItsLastAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		b.store.refuse = 25 // more than the slack of a task of ours
		b.adopt(asynq.Config{}, func(context.Context, *asynq.Task) error { return errUpstream })
		b.send(asynq.NewTask("chat", []byte("hello")),
			asynq.TaskID("chat-1"), asynq.MaxRetry(0), asynq.Timeout(time.Minute), asynq.Retention(time.Hour))
		f := receive(t, b.finishes)
		if f.Task.ID != "chat-1" || f.Kind != worker.KindArchived {
			t.Errorf("finish %+v", f)
		}
		if s := receive(t, b.starts); !s.Waited {
			t.Errorf("the task started as %+v", s)
		}
		archived := b.info("chat-1", asynq.TaskStateArchived)
		if archived.Retried != 0 || archived.MaxRetry != 0 || archived.Timeout != time.Minute ||
			archived.Retention != time.Hour || string(archived.Payload) != "hello" {
			t.Errorf("archived as %+v", archived)
		}
		if n := len(b.deferrals); n != 25 {
			t.Errorf("deferred %d times, want 25", n)
		}
	})
}

func TestForeignTaskOnItsLastAttemptInAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		b.store.down = true
		b.adopt(asynq.Config{}, func(context.Context, *asynq.Task) error { return nil })
		b.send(asynq.NewTask("chat", nil), asynq.TaskID("chat-1"), asynq.MaxRetry(0))
		if d := receive(t, b.deferrals); !errors.Is(d.Err, reservations.ErrUnavailable) {
			t.Errorf("deferral %+v", d)
		}
		waits := b.info("chat-1", asynq.TaskStateRetry)
		if !strings.HasPrefix(waits.LastErr, "waiting for limit api") {
			t.Errorf("asynq's tools show %q", waits.LastErr)
		}
		b.store.set(func(s *faultStore) { s.down = false })
		if f := receive(t, b.finishes); f.Task.ID != "chat-1" || f.Kind != worker.KindSucceeded {
			t.Errorf("finish %+v", f)
		}
	})
}

// Tasks whose deadline passes while they wait end once, as expired. The tasks behind them start.
func TestDeadlinePassesWhileATaskWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, filling(100*time.Millisecond))
		b.adopt(asynq.Config{}, func(context.Context, *asynq.Task) error { return nil })
		blocked, err := inside.Of(b.limiter).Block(t.Context(), reservations.Charge{Limit: "api"}, 3500*time.Millisecond)
		if err != nil || blocked[0].Wait() == 0 {
			t.Fatal(blocked, err)
		}
		passed := []string{"a", "b", "c"}
		for _, id := range passed {
			deadline := asynq.Deadline(time.Now().Add(2 * time.Second))
			b.send(asynq.NewTask("chat", nil), asynq.TaskID(id), asynq.MaxRetry(3), deadline)
		}
		for _, id := range []string{"d", "e", "f", "g"} {
			b.send(asynq.NewTask("chat", nil), asynq.TaskID(id), asynq.MaxRetry(3))
		}
		for range 4 {
			if f := receive(t, b.finishes); f.Kind != worker.KindSucceeded || slices.Contains(passed, f.Task.ID) {
				t.Errorf("finish %+v", f)
			}
		}
		for _, id := range passed {
			if info := b.info(id, asynq.TaskStateArchived); info.Retried != 0 || !strings.Contains(info.LastErr, "expired") {
				t.Errorf("%s is archived as %+v", id, info)
			}
		}
		if n := len(b.refusals); n != len(passed) {
			t.Errorf("%d tasks were refused, want %d", n, len(passed))
		}
	})
}

func TestFaultsOfAdoptedLimits(t *testing.T) {
	t.Parallel()
	_, err := worker.Adopt(nil, nil, worker.Config{
		SettleTimeout: -1, MaxRefusals: -1, Scheduler: scheduler.Config{Delivery: time.Hour},
	})
	named(t, err, "settle_timeout", "max_refusals", "delivery")
	_, err = worker.Adopt(nil, nil, worker.Config{
		Concurrency: 1, Queues: map[string]int{"a": 1}, StrictPriority: true, ShutdownTimeout: 1,
	})
	named(t, err, "concurrency", "queues", "strict_priority", "shutdown_timeout")
	_, err = worker.New(nil, nil, worker.Config{
		Charge: func(*asynq.Task) ([]reservations.Charge, error) { return nil, nil },
	})
	named(t, err, "charge")
}

// A server whose handlers are not behind Middleware limits nothing, and says so once.
func TestAdoptSaysThatMiddlewareIsMissing(t *testing.T) {
	t.Parallel()
	for name, behind := range map[string]bool{"a mux with it": true, "a mux without it": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b, log := setup(t, slow(100)), newLines()
				limits, err := worker.Adopt(b.client, b.limiter, worker.Config{Logger: slog.New(log)})
				if err != nil {
					t.Fatal(err)
				}
				mux, handled := asynq.NewServeMux(), make(chan struct{}, 3)
				if behind {
					mux.Use(limits.Middleware)
				}
				mux.HandleFunc("foreign", func(context.Context, *asynq.Task) error {
					handled <- struct{}{}
					return nil
				})
				server := limits.Server(asynq.Config{LogLevel: asynq.FatalLevel, Concurrency: 1})
				if err := server.Start(mux); err != nil {
					t.Fatal(err)
				}
				for range 3 {
					if _, err := asynq.NewClientFromRedisClient(b.client).Enqueue(asynq.NewTask("foreign", nil)); err != nil {
						t.Fatal(err)
					}
				}
				for range 3 {
					receive(t, handled)
				}
				server.Shutdown()
				if err := limits.Stop(t.Context()); err != nil {
					t.Fatal(err)
				}
				if n := log.count("mux.Use(limits.Middleware)"); (n == 1) == behind || n > 1 {
					t.Errorf("%d lines on Middleware", n)
				}
			})
		})
	}
}

// A program that leaves out Server or Start finds the line to add in its log, once, after its first delivery.
func TestAdoptSaysWhatIsLeftOut(t *testing.T) {
	t.Parallel()
	const noServer, noStart = "limits.Server(asynq.Config{", "limits.Start(ctx)"
	for name, test := range map[string]struct{ server, start bool }{
		"all": {true, true}, "no Server": {false, true}, "no Start": {true, false}, "neither": {false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b, log := setup(t, slow(100)), newLines()
				limits, err := worker.Adopt(b.client, b.limiter, worker.Config{Logger: slog.New(log)})
				if err != nil {
					t.Fatal(err)
				}
				config := asynq.Config{LogLevel: asynq.FatalLevel}
				server, handled := asynq.NewServerFromRedisClient(b.client, config), make(chan struct{}, 2)
				if test.server {
					server = limits.Server(config)
				}
				if test.start {
					if err := limits.Start(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if err := server.Start(limits.Middleware(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
					handled <- struct{}{}
					return nil
				}))); err != nil {
					t.Fatal(err)
				}
				b.enqueue(call{Cost: 1})
				b.enqueue(call{Cost: 1})
				receive(t, handled)
				receive(t, handled)
				server.Shutdown()
				if err := limits.Stop(t.Context()); err != nil {
					t.Fatal(err)
				}
				if (log.count(noServer) == 1) == test.server || (log.count(noStart) == 1) == test.start {
					t.Errorf("%d lines on Server, %d on Start", log.count(noServer), log.count(noStart))
				}
			})
		})
	}
}
