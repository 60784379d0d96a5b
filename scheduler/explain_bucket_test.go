package scheduler_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
)

// In a limit with shards, a task waits for the bucket of its shard.
func TestExplainShowsTheShard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit := perSecond(10, 10)
		limit.Shards = 2
		buckets := store()
		s := newScheduler(t, inMemory(t), limiter(t, buckets, limit), exact())
		info, err := s.Enqueue(t.Context(), openai("a"))
		if err != nil {
			t.Fatal(err)
		}
		half := perSecond(5, 5)
		half.Name = "openai#2"
		requests := []bucket.Request{
			{Op: bucket.OpBlock, For: time.Hour}, {Op: bucket.OpStart, Tokens: []float64{1}},
		}
		outcomes, err := bucket.Apply(t.Context(), buckets, bucket.Rules(half), "k", requests)
		if err != nil {
			t.Fatal(err)
		}
		a := outcomes[1]
		o := reservations.Outcome{State: a.State, RetryAt: a.RetryAt, At: a.At}
		o.Bucket = a.Bucket
		task := waitlist.Task{Queue: "default", ID: info.ID}
		c := reservations.Charge{Limit: "openai", Key: "k", Tokens: reservations.Tokens{"requests": 1}}
		c.Shard = 2
		err = inside.Of(s).Wait(t.Context(), task, dispatcher.Turn{}, dispatcher.Stop{Charge: c, Outcome: o})
		if !errors.Is(err, dispatcher.ErrDeferred) {
			t.Fatal(err)
		}
		e, err := s.Explain(t.Context(), task.Queue, task.ID)
		if err != nil || e.Bucket == nil || e.Bucket.Limit != "openai" || e.Bucket.Shard != 2 ||
			e.Reason != scheduler.ReasonBlocked ||
			e.Waits.Bucket != "openai#2:k" {
			t.Errorf("%q, %+v, %+v, %v", e.Summary(), e.Waits, e.Bucket, err)
		}
	})
}

// A task that waits for a call in flight to end has no expected start.
func TestExplainCallsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, limit := inMemory(t), perSecond(10, 10)
		limit.Meters = append(limit.Meters, reservations.InFlight(1))
		l := limiter(t, store(), limit)
		s := newScheduler(t, client, l, exact())
		task := waitlist.Task{Queue: "default"}
		charge := reservations.Charge{Limit: "openai", Key: "k", Tokens: reservations.Tokens{"requests": 1}}
		for range 3 {
			o, err := inside.Of(l).Ask(t.Context(), charge)
			if err != nil {
				t.Fatal(err)
			}
			if o.Started() {
				continue
			}
			task.ID = putBack(t, client, openai("k"))
			stop := dispatcher.Stop{Charge: charge, Outcome: o}
			err = inside.Of(s).Wait(t.Context(), task, dispatcher.Turn{}, stop)
			if !errors.Is(err, dispatcher.ErrDeferred) {
				t.Fatal(err)
			}
		}
		e, err := s.Explain(t.Context(), task.Queue, task.ID)
		want := "Task " + task.ID +
			" waits for one of 1 calls in flight of limit openai:k to end: it is number 2 of 2 in its waitlist; " +
			"no worker takes from queue default: start one."
		if err != nil || e.Reason != scheduler.ReasonInFlight || !e.Until.IsZero() || e.Summary() != want ||
			e.Waits.TokensAhead["in_flight"] != 1 {
			t.Errorf("%q, %+v, %v, %v", e.Summary(), e.Waits, e.Until, err)
		}
		w, err := inside.Of(s).Waitlist(t.Context(), "openai:k")
		if err != nil || !w.End.IsZero() || w.Tokens["in_flight"] != 2 {
			t.Errorf("waitlist %+v, %v", w, err)
		}
	})
}

// Explain returns everything else if a bucket can't be read.
func TestExplainWithoutTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := inMemory(t)
		s := newScheduler(t, client, limiter(t, store(), perSecond(1, 1)), exact())
		for _, id := range []string{"a", "b"} {
			if _, err := s.Enqueue(t.Context(), openai(id), tasks.Options{ID: id}); err != nil {
				t.Fatal(err)
			}
		}
		other := newScheduler(t, client, limiter(t, down{}, perSecond(1, 1)), exact())
		e, err := other.Explain(t.Context(), "default", "b")
		if err != nil || e.Bucket != nil || !errors.Is(e.BucketErr, reservations.ErrUnavailable) || e.Waits == nil ||
			e.Waits.Position != 2 {
			t.Errorf("%+v, %v", e, err)
		}
	})
}

// putBack puts a task into asynq's retry set, as a worker does. It returns the ID.
func putBack(t *testing.T, client redis.UniversalClient, args tasks.Args) string {
	t.Helper()
	e, err := envelope.Encode(args)
	if err != nil {
		t.Fatal(err)
	}
	options := append(envelope.Asynq(e.Options), asynq.ProcessIn(time.Hour))
	info, err := asynq.NewClientFromRedisClient(client).EnqueueContext(t.Context(), e.Task, options...)
	if err != nil {
		t.Fatal(err)
	}
	return info.ID
}
