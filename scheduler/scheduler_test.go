package scheduler_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
)

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	select {
	case v := <-from:
		return v
	case <-ctx.Done():
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// ask starts a new task.
func ask(t *testing.T, l *reservations.Limiter, c reservations.Charge) reservations.Outcome {
	t.Helper()
	o, err := inside.Of(l).Ask(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func requests(n float64) reservations.Charge {
	return reservations.Charge{Limit: "openai", Tokens: reservations.Tokens{"requests": n}}
}

func TestStartAndStopInAnyOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(t, inMemory(t), nil, exact())
		for i, step := range []func(context.Context) error{s.Stop, s.Start, s.Start, s.Stop, s.Stop, s.Start, s.Stop} {
			if err := step(t.Context()); err != nil {
				t.Errorf("step %d: %v", i, err)
			}
		}
	})
}

func TestStopReportsWhatItCouldNotFinish(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := memredis.Serve(t)
		client := server.Client(t)
		l := limiter(t, store(), perSecond(1, 1))
		s := newScheduler(t, client, l, exact())
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		server.SetError("LOADING busy")
		inside.Of(s).Changed(ask(t, l, requests(1)))
		if err := s.Stop(t.Context()); err == nil || !strings.Contains(err.Error(), "stop the scheduler") {
			t.Errorf("err = %v", err)
		}
		server.SetError("")
		if err := s.Stop(t.Context()); err != nil {
			t.Errorf("stopped again: %v", err)
		}
	})
}

func TestConfigFaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, err := scheduler.New(inMemory(t), nil, scheduler.Config{Delivery: time.Second})
		if f, ok := errors.AsType[*reservations.FieldError](err); !ok || f.Field != "delivery" ||
			!strings.Contains(f.Problem, "1s must be at most 170ms") {
			t.Errorf("err = %v", err)
		}
		_, err = scheduler.New(nil, nil, exact())
		if f, ok := errors.AsType[*reservations.FieldError](err); !ok || f.Field != "client" {
			t.Errorf("no client: %v", err)
		}
		if _, err := scheduler.New(inMemory(t), nil, scheduler.Config{Delivery: -1}); err != nil {
			t.Errorf("no delivery: %v", err)
		}
	})
}
