package dispatcher

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/reservations"
)

// reporting is a reporter on a Redis of its own, with a waiting task for "openai" and a promoted task.
type reporting struct {
	*reporter

	t      *testing.T
	list   *waitlist.Waitlist
	server *memredis.Server
	client *redis.Client
}

func newReporting(t *testing.T) reporting {
	t.Helper()
	server := memredis.Serve(t)
	client := server.Client(t)
	list := waitlist.New(client)
	r := reporting{newReporter(list, slog.New(slog.DiscardHandler)), t, list, server, client}
	var entries []waitlist.Entry
	for _, id := range []string{"a", "b"} {
		task := waitlist.Task{Queue: "default", ID: id}
		entries = append(entries, waitlist.Entry{Task: task, Bucket: "openai", Tokens: map[string]float64{"requests": 1}})
	}
	_, err := list.Join(t.Context(), waitlist.Reported{}, entries...)
	r.check(err)
	t.Cleanup(func() { _ = r.close(t.Context()) })
	return r
}

func (r reporting) check(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r reporting) end() {
	r.t.Helper()
	r.check(r.close(r.t.Context()))
}

// stored returns the version of the bucket in the waitlist.
func (r reporting) stored() (version int64, waiting int) {
	r.t.Helper()
	l, err := r.list.List(r.t.Context(), "openai")
	r.check(err)
	var b bucket.Bucket
	if len(l.State) > 0 {
		r.check(json.Unmarshal(l.State, &b))
	}
	return b.Version, l.Waiting
}

func version(generation, version int64) bucket.Bucket {
	return bucket.Bucket{At: time.Now(), Generation: generation, Version: version}
}

func TestReporterSendsTheNewestAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReporting(t)
		for _, v := range []int64{2, 7, 5} {
			r.answer(reservations.BucketName{Limit: "openai"}, version(1, v), false)
		}
		r.answer(reservations.BucketName{Limit: "openai"}, version(0, 9), false)
		r.answer(reservations.BucketName{Limit: "openai"}, bucket.Bucket{}, true) // no answer
		r.end()
		if v, _ := r.stored(); v != 7 {
			t.Errorf("version %d is stored, want 7", v)
		}
		r.answer(reservations.BucketName{Limit: "openai"}, version(1, 6), false)
		r.end()
		if v, _ := r.stored(); v != 7 {
			t.Errorf("version %d is stored after an older one came late", v)
		}
		r.answer(reservations.BucketName{Limit: "openai"}, version(2, 1), false)
		r.end()
		if v, _ := r.stored(); v != 1 {
			t.Errorf("version %d is stored, want that of the next generation", v)
		}
	})
}

// A task that began is reported, however long Redis is down.
func TestReporterKeepsWhatBegan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReporting(t)
		r.server.SetError("LOADING busy")
		r.answer(reservations.BucketName{Limit: "openai"}, version(1, 1), false)
		r.began(waitlist.Task{Queue: "default", ID: "a"})
		if err := r.flush(t.Context()); err == nil {
			t.Fatal("no error")
		}
		r.answer(reservations.BucketName{Limit: "openai"}, version(1, 2), false)
		if err := r.flush(t.Context()); err == nil {
			t.Fatal("no error")
		}
		r.server.SetError("")
		r.end()
		if v, n := r.stored(); v != 2 || n != 1 {
			t.Errorf("version %d is stored and %d tasks wait, want 2 and 1", v, n)
		}
	})
}

// Without a stop, an answer is sent within about 10 ms. Many answers are sent in parts.
func TestReporterSendsByItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReporting(t)
		for range 2 * reportTogether {
			r.began(waitlist.Task{Queue: "default", ID: "unknown"})
		}
		r.began(waitlist.Task{Queue: "default", ID: "b"})
		r.answer(reservations.BucketName{Limit: "openai"}, version(1, 3), true)
		r.done.Wait()
		if v, n := r.stored(); v != 3 || n != 1 {
			t.Errorf("version %d is stored and %d tasks wait", v, n)
		}
	})
}

// An answer that comes while a scheduler stops is reported, although Redis did not take what was left then.
func TestReporterSendsWhatCameWhileItStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReporting(t)
		r.began(waitlist.Task{Queue: "default", ID: "a"})
		r.client.AddHook(&busyOnce{then: func() {
			r.answer(reservations.BucketName{Limit: "openai"}, version(1, 3), true)
		}})
		if err := r.close(t.Context()); err == nil {
			t.Fatal("no error")
		}
		r.done.Wait()
		if v, n := r.stored(); v != 3 || n != 1 {
			t.Errorf("version %d is stored and %d tasks wait, want 3 and 1", v, n)
		}
	})
}

// busyOnce refuses one command, after it has called then.
type busyOnce struct {
	then func()
	once sync.Once
}

func (*busyOnce) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*busyOnce) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (b *busyOnce) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) (err error) {
		refused := false
		b.once.Do(func() {
			b.then()
			refused, err = true, errors.New("LOADING busy")
			cmd.SetErr(err)
		})
		if refused {
			return err
		}
		return next(ctx, cmd)
	}
}

// A task of a queue that can't be woken is promoted again each time it has not begun: it is woken once nevertheless.
// It does not slow down the others.
func TestADispatcherWakesATaskOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReporting(t)
		client := r.server.Client(t)
		d := newPromoter(New(client, nil, 75*time.Millisecond, slog.New(slog.DiscardHandler)))
		r.check(client.HSet(t.Context(), "asynq:{default}:t:a", "state", "scheduled").Err())
		r.check(client.Set(t.Context(), "asynq:{default}:scheduled", "no sorted set", 0).Err())
		a, b := waitlist.Task{Queue: "default", ID: "a"}, waitlist.Task{Queue: "other", ID: "b"}
		for range 3 {
			d.deliver([]waitlist.Task{a, b}, map[waitlist.Task]int{a: -1})
			if next := d.wake(t.Context()); next <= 0 || next > errorPause {
				t.Fatalf("the next one is due in %v", next)
			}
		}
		if len(d.awake) != 1 || d.awake[0].task != a || d.awake[0].rank != -1 {
			t.Errorf("to wake: %+v", d.awake)
		}
		d.s.background.Wait()
	})
}

// A dispatcher that lost its duty between a look and its promotion promotes nothing.
func TestADispatcherThatLostItsDutyPromotesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReporting(t)
		client := r.server.Client(t)
		s := New(client, nil, 75*time.Millisecond, slog.New(slog.DiscardHandler))
		var promoted int
		s.Promoted = func(all []waitlist.Task) { promoted += len(all) }
		frozen, other := newPromoter(s), newPromoter(s)
		duty := waitlist.Duty{
			ID: frozen.id, Rest: dispatcherRest, Lease: dispatcherLease, Heads: headsMost, Promoted: promotedMost,
		}
		look, err := s.list.Look(t.Context(), duty, nil)
		r.check(err)
		if !look.OnDuty || len(look.Due) != 1 {
			t.Fatalf("%+v", look)
		}
		<-time.After(3 * time.Second)
		_, err = other.dispatch(t.Context())
		r.check(err)
		if promoted != 1 { // as a probe of the bucket
			t.Fatalf("the other one promoted %d", promoted)
		}
		_, err = frozen.promote(t.Context(), look)
		r.check(err)
		if promoted != 1 {
			t.Error("the frozen one promoted")
		}
		s.background.Wait()
	})
}
