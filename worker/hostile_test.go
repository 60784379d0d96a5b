package worker_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

func TestPanicsInEventsChangeNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		b.store.refuse = 1
		var log bytes.Buffer
		w, err := worker.New(b.client, b.limiter, worker.Config{
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Events: append([]func(worker.Event){func(e worker.Event) { panic("on " + e.Kind) }}, b.events()...),
		})
		if err != nil {
			t.Fatal(err)
		}
		worker.Handle(w, func(_ context.Context, job *worker.Job[call]) error {
			job.Use(reservations.Tokens{"tokens": 1})
			return nil
		})
		if err := w.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		done := b.enqueue(call{Cost: 10}, tasks.Options{MaxRetry: tasks.NoRetry})
		refused := b.send(asynq.NewTask("call", []byte(`{"n":`)))
		b.gone(done.ID)
		receive(t, b.finishes) // by the hook behind the one that panicked
		if archived := b.info(refused.ID, asynq.TaskStateArchived); !strings.Contains(archived.LastErr, "bad payload") {
			t.Errorf("archived with %q", archived.LastErr)
		}
		if err := w.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, hook := range []string{"on started", "on deferred", "on succeeded", "on rejected", "on settled"} {
			if n := strings.Count(log.String(), hook+`"`); n != 1 {
				t.Errorf("%q logged %d times, want once", hook, n)
			}
		}
	})
}

// asynq stores error texts as protobuf strings. It can neither retry nor archive a task whose text is not UTF-8.
func TestErrorTextsThatAreNotUTF8(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(100))
		broken := errors.New("cut in a rune: \xe2\x82")
		b.run(func(context.Context, *worker.Job[call]) error { return broken })
		info := b.enqueue(call{Cost: 1}, tasks.Options{MaxRetry: 1})
		if f := receive(t, b.finishes); !errors.Is(f.Err, broken) {
			t.Errorf("finish %+v", f)
		}
		if retry := b.info(info.ID, asynq.TaskStateRetry); retry.LastErr != "cut in a rune: \uFFFD" {
			t.Errorf("asynq shows %q", retry.LastErr)
		}
		b.hurry(info.ID)
		b.info(info.ID, asynq.TaskStateArchived)
	})
}

// picky is a payload whose own code panics.
type picky struct{}

func (picky) TaskType() string            { return "picky" }
func (*picky) UnmarshalJSON([]byte) error { panic("what is this") }

func TestPanicWhileDecodingIsAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		w := b.worker(worker.Config{})
		worker.Handle(w, func(context.Context, *worker.Job[picky]) error { return nil })
		b.start(w)
		info := b.enqueue(picky{}, tasks.Options{MaxRetry: tasks.NoRetry})
		if archived := b.info(info.ID, asynq.TaskStateArchived); archived.LastErr != "handler panicked: what is this" {
			t.Errorf("asynq shows %q", archived.LastErr)
		}
	})
}
