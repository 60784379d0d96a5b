package worker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/test/network"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/worker"
)

// named fails unless the error is of a config and names each field.
func named(t *testing.T, err error, fields ...string) {
	t.Helper()
	if _, ok := errors.AsType[*reservations.FieldError](err); !ok {
		t.Fatalf("error %v", err)
	}
	for _, field := range fields {
		if !strings.Contains(err.Error(), field+": ") {
			t.Errorf("%q is not named in: %v", field, err)
		}
	}
}

func TestConfigNamesEveryFault(t *testing.T) {
	t.Parallel()
	_, err := worker.New(nil, nil, worker.Config{
		Concurrency: -1, Queues: map[string]int{"low": 0, " ": 1, "fine": 2}, ShutdownTimeout: -time.Second,
		SettleTimeout: -time.Second,
		Scheduler:     scheduler.Config{Delivery: time.Hour},
	})
	named(t, err, "concurrency", "queues.low", "queues", "shutdown_timeout", "settle_timeout", "delivery")
	if strings.Contains(err.Error(), "fine") {
		t.Errorf("names a valid field: %v", err)
	}
}

func TestRedisUnreachable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, wire, _ := cuttable(t)
		wire.Set(network.Refuse)
		w := b.worker(worker.Config{})
		worker.Handle(w, ok)
		if err := w.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "reach redis") {
			t.Errorf("start: %v", err)
		}
		if err := w.Stop(t.Context()); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
}

func TestHandlePanicsOnMistakes(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	w, err := worker.New(client, nil, worker.Config{})
	if err != nil {
		t.Fatal(err)
	}
	panics := func(what string, f func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s: no panic", what)
			}
		}()
		f()
	}
	worker.Handle(w, ok)
	panics("twice", func() { worker.Handle(w, ok) })
	panics("nil", func() { worker.Handle[free](w, nil) })
	panics("no name", func() { worker.Handle(w, func(context.Context, *worker.Job[nameless]) error { return nil }) })
}

type nameless struct{}

func (nameless) TaskType() string { return "" }
