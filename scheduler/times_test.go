package scheduler_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
)

func TestAStartByThatCanNotBeMet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := inMemory(t)
		s := newScheduler(t, client, limiter(t, store(), perSecond(1, 1)), exact())
		now := time.Now()
		for want, options := range map[string]tasks.Options{
			"start_by: " + now.Add(-time.Minute).UTC().Format("2006"): {StartBy: now.Add(-time.Minute)},
			"must not be before the earliest start of the task": {
				StartBy: now.Add(time.Minute), At: now.Add(time.Hour),
			},
		} {
			_, err := s.Enqueue(t.Context(), openai("a"), options)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("err = %v, want %q", err, want)
			}
			if errors.Is(err, tasks.ErrExpired) {
				t.Errorf("%v is an expiry", err)
			}
		}
		if n := client.DBSize(t.Context()).Val(); n != 0 {
			t.Errorf("%d keys were written", n)
		}
	})
}

// A task is not enqueued, and reserves nothing, if it would start too late by the waitlist.
func TestEnqueueSaysWhatWouldStartTooLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, store(), perSecond(1./60, 1))
		s := newScheduler(t, inMemory(t), l, exact())
		reserve(t, s, numbered(30))
		ahead := plan(t, l)
		_, err := s.Enqueue(t.Context(), openai("a"),
			tasks.Options{StartBy: time.Now().Add(20 * time.Minute)})
		late, ok := errors.AsType[*scheduler.TooLateError](err)
		if !ok || !errors.Is(err, tasks.ErrExpired) || late.Bucket != "openai" || !late.Expected.After(late.StartBy) {
			t.Errorf("err = %v, want a TooLateError", err)
		}
		var some []tasks.Args
		for range 20 {
			some = append(some, openai("a"))
		}
		infos, err := s.EnqueueMany(t.Context(), some,
			tasks.Options{StartBy: time.Now().Add(45 * time.Minute)})
		n := 0
		for _, info := range infos {
			if info != nil {
				n++
			}
		}
		if n != 16 || !errors.Is(err, tasks.ErrExpired) {
			t.Errorf("%d of 20 tasks were enqueued, want 16, %v", n, err)
		}
		if promised := plan(t, l); promised > ahead+float64(n)+.1 {
			t.Errorf("%v tokens are promised ahead, %v before %d tasks", promised, ahead, n)
		}
		if _, err := s.Enqueue(t.Context(), openai("b"), tasks.Options{StartBy: time.Now().Add(24 * time.Hour)}); err != nil {
			t.Errorf("in time: %v", err)
		}
	})
}

// asynq's retry set delivers a task no later than at its StartBy.
func TestTheNetEndsWithStartBy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		by := time.Now().Add(time.Minute)
		e, err := envelope.Encode(openai("a"), tasks.Options{StartBy: by})
		if err != nil {
			t.Fatal(err)
		}
		waits := &dispatcher.DeferredError{Delay: time.Hour}
		for what, d := range map[string]time.Duration{
			"failed": dispatcher.RetryDelay(25, errors.New("failed"), e.Task), "waits": time.Until(waits.Snooze(e.Task).Until),
		} {
			if at := time.Now().Add(d); at.After(by.Add(time.Second)) || at.Before(by) {
				t.Errorf("%s: back after %v", what, d)
			}
		}
		if d := dispatcher.RetryDelay(25, errors.New("failed"), asynq.NewTask("a", nil)); d < 20*time.Minute {
			t.Errorf("without StartBy: %v", d)
		}
	})
}

// The reservation of a task is released at its StartBy, even without a worker that ends the task. The queue is paused:
// the dispatcher promotes nothing.
func TestAnExpiredReservationIsReleased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, l := inMemory(t), limiter(t, store(), perSecond(1./60, 1))
		s := newScheduler(t, client, l, exact())
		if _, err := s.Enqueue(t.Context(), openai("a"), tasks.Options{ID: "a"}); err != nil {
			t.Fatal(err)
		}
		before := plan(t, l)
		by := time.Now().Add(time.Hour)
		info, err := s.Enqueue(t.Context(), openai("b"), tasks.Options{StartBy: by})
		if err != nil {
			t.Fatal(err)
		}
		if e, err2 := s.Explain(t.Context(), info.Queue, info.ID); err2 != nil ||
			!strings.Contains(e.Summary(), "; it must start by ") {
			t.Errorf("%s, %v", e.Summary(), err2)
		}
		if _, err = inside.Of(l).Block(t.Context(), requests(1), 2*time.Hour); err != nil { // refill releases nothing
			t.Fatal(err)
		}
		<-time.After(time.Until(by.Add(time.Minute)))
		if err = client.Set(t.Context(), "asynq:{default}:paused", 1, 0).Err(); err != nil {
			t.Fatal(err)
		}
		start(t, s)
		awaitPending(t, client, info.ID)
		until(t, "the reservation is released", func() bool { return plan(t, l) <= before })
		until(t, "the task has left the waitlist", func() bool {
			turn, err := inside.Of(s).Arrive(t.Context(), named(info.ID), []reservations.Charge{requests(1)})
			return err == nil && turn.State == waitlist.StateNew
		})
		if e, err := s.Explain(t.Context(), info.Queue, info.ID); err != nil ||
			!strings.Contains(e.Summary(), "; it had to start by ") {
			t.Errorf("%s, %v", e.Summary(), err)
		}
	})
}

// awaitPending waits until asynq delivers the task next.
func awaitPending(t *testing.T, client redis.UniversalClient, id string) {
	t.Helper()
	until(t, "the task is delivered", func() bool {
		return client.HGet(t.Context(), "asynq:{default}:t:"+id, "state").Val() == "pending"
	})
}

// until polls, because Redis sends no event.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond) //gate:ok called in bubbles
	defer tick.Stop()
	for late := time.After(patience); !done(); { //gate:ok called in bubbles
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("not in %v: %s", patience, what)
		}
	}
}
