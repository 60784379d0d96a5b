package scheduler_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
)

// waits is a scheduler that is not started, with a bucket of one task an hour.
type waits struct {
	*scheduler.Scheduler

	t       *testing.T
	limiter *reservations.Limiter
	list    *waitlist.Waitlist
}

func newWaits(t *testing.T, client redis.UniversalClient) waits {
	t.Helper()
	l := limiter(t, store(), perSecond(1./3600, 1))
	return waits{newScheduler(t, client, l, exact()), t, l, waitlist.New(client)}
}

func named(id string) waitlist.Task { return waitlist.Task{Queue: "default", ID: id} }

func (w waits) arrive(id string) dispatcher.Turn {
	w.t.Helper()
	turn, err := inside.Of(w).Arrive(w.t.Context(), named(id), []reservations.Charge{requests(1)})
	if err != nil {
		w.t.Fatal(err)
	}
	return turn
}

// wait lets tasks join after their bucket refused them.
func (w waits) wait(ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		turn := w.arrive(id)
		outcomes, err := inside.Of(w.limiter).Reserve(w.t.Context(), requests(1))
		if err != nil {
			w.t.Fatal(err)
		}
		w.deferred(inside.Of(w).Wait(w.t.Context(), named(id), turn,
			dispatcher.Stop{Charge: requests(1), Outcome: outcomes[0]}))
	}
}

// deferred returns how long a deferral lasts.
func (w waits) deferred(err error) time.Duration {
	w.t.Helper()
	d, ok := errors.AsType[*dispatcher.DeferredError](err)
	if !ok || dispatcher.IsFailure(err) || !errors.Is(err, dispatcher.ErrDeferred) {
		w.t.Fatalf("err = %v, want a deferral", err)
	}
	return d.Delay
}

// heads returns the first waiting tasks, in order.
func (w waits) heads() string {
	w.t.Helper()
	look := w.look("test")
	var ids []string
	for _, due := range look.Due {
		for _, head := range due.Heads {
			ids = append(ids, head.ID)
		}
	}
	return strings.Join(ids, " ")
}

func (w waits) look(id string) waitlist.Look {
	w.t.Helper()
	duty := waitlist.Duty{ID: id, Heads: 100, Promoted: 100, Rest: time.Second}
	look, err := w.list.Look(w.t.Context(), duty, nil)
	if err != nil || !look.OnDuty {
		w.t.Fatalf("look: %+v, %v", look, err)
	}
	return look
}

func (w waits) promote(ids ...string) {
	w.t.Helper()
	plan := waitlist.Plan{Bucket: "openai", Next: time.Hour}
	for _, due := range w.look("test").Due {
		plan.Planned = due.Planned
	}
	for _, id := range ids {
		plan.Promote = append(plan.Promote, named(id))
	}
	got, onDuty, err := w.list.Promote(w.t.Context(), "test", []waitlist.Plan{plan})
	if err != nil || !onDuty || len(got) != len(ids) {
		w.t.Fatalf("promoted %v, %v, %v", got, onDuty, err)
	}
}

func TestTurn(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		w := newWaits(t, client)
		if turn := w.arrive("a"); turn.State != waitlist.StateNew || turn.Behind(requests(1)) ||
			turn.Holds(requests(1)) != "" {
			t.Fatalf("new: %+v", turn)
		}
		if o := ask(t, w.limiter, requests(1)); !o.Started() {
			t.Fatalf("%+v", o)
		}
		w.wait("a", "b")
		if turn := w.arrive("c"); turn.State != waitlist.StateNew || !turn.Behind(requests(1)) {
			t.Errorf("behind others: %+v", turn)
		}
		turn := w.arrive("b")
		if turn.State != waitlist.StateWaiting || turn.Bucket != "openai" || turn.Behind(requests(1)) ||
			turn.Holds(requests(1)) != bucket.StateReserved {
			t.Errorf("waiting: %+v", turn)
		}
		if in := w.deferred(inside.Of(w).Wait(t.Context(), named("a"), turn,
			dispatcher.Stop{Charge: requests(1), After: turn.Left(), Kept: true})); (in - 2*time.Hour).Abs() > time.Minute {
			t.Errorf("it goes back for %v", in)
		}
		w.promote("a")
		if turn = w.arrive("a"); turn.State != waitlist.StatePromoted ||
			turn.Holds(requests(1)) != bucket.StateReserved {
			t.Errorf("promoted: %+v", turn)
		}
		promoted := requests(1)
		promoted.Held = turn.Holds(promoted)
		o, err := inside.Of(w.limiter).Ask(t.Context(), promoted)
		if err != nil || o.Started() {
			t.Fatalf("%+v, %v", o, err)
		}
		w.deferred(inside.Of(w).Wait(t.Context(), named("a"), turn,
			dispatcher.Stop{Charge: requests(1), Outcome: o}))
		if got := w.heads(); got != "a b" {
			t.Errorf("a task that came too early goes back to its place, not: %s", got)
		}
		w.promote("a")
		inside.Of(w).Begun(named("a"), w.arrive("a"),
			startOf{charge: reservations.Charge{Limit: "openai"}, outcome: o})
		if err := w.Stop(t.Context()); err != nil { // sends the remaining reports
			t.Fatal(err)
		}
		if turn = w.arrive("a"); turn.State != waitlist.StateNew || !turn.Behind(requests(1)) {
			t.Errorf("begun: %+v", turn)
		}
	})
}

// A task that its provider refused, or that its stopping worker gave back, is the first to start.
func TestTasksThatGoFirst(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		w := newWaits(t, client)
		w.wait("a", "b")
		w.promote("a")
		blocked, err := inside.Of(w.limiter).Block(t.Context(), requests(1), 9*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		refusal := errors.New("429 slow down")
		err = inside.Of(w).Wait(t.Context(), named("refused"), dispatcher.Turn{},
			dispatcher.Stop{Charge: requests(1), Outcome: blocked[0], Refusal: refusal, First: true, After: time.Second})
		if in := w.deferred(err); (in-9*time.Minute).Abs() > time.Minute || !errors.Is(err, refusal) {
			t.Errorf("%v, for %v", err, in)
		}
		w.deferred(inside.Of(w).Wait(t.Context(), named("stopped"), w.arrive("stopped"),
			dispatcher.Stop{Charge: requests(1), First: true}))
		w.deferred(inside.Of(w).Wait(t.Context(), named("a"), w.arrive("a"),
			dispatcher.Stop{Charge: requests(1), First: true}))
		if got := w.heads(); !strings.HasSuffix(got, " a b") || len(got) != len("refused stopped a b") {
			t.Errorf("heads are %s", got)
		}
	})
}

// An unlimited task that its provider refused is in no waitlist. asynq delivers it at its time.
func TestWaitRefusedWithoutALimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWaits(t, inMemory(t))
		err := inside.Of(w).Wait(t.Context(), named("a"), dispatcher.Turn{},
			dispatcher.Stop{Refusal: errors.New("429"), First: true, After: time.Minute})
		if d := time.Until(err.Snooze(nil).Until); (d - 61*time.Second).Abs() > 0 {
			t.Errorf("it comes back in %v", d)
		}
		if turn := w.arrive("a"); turn.State != waitlist.StateNew {
			t.Errorf("it waits as %+v", turn)
		}
	})
}

func TestWaitStoreKeepsThePlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWaits(t, inMemory(t))
		w.wait("a", "b")
		w.promote("a")
		err := inside.Of(w).Wait(t.Context(), named("a"), w.arrive("a"),
			dispatcher.Stop{Charge: requests(1), Cause: unreachable()})
		if in := w.deferred(err); in < time.Second || in > 2*time.Second || !errors.Is(err, reservations.ErrUnavailable) {
			t.Errorf("%v, for %v", err, in)
		}
		if got := w.heads(); got != "" {
			t.Errorf("%s are due before the store is asked again", got)
		}
		if list, err := inside.Of(w).Waitlist(t.Context(), "openai"); err != nil || list.FailedUntil.IsZero() {
			t.Errorf("%+v, %v", list, err)
		}
		inside.Of(w).Answered(t.Context(), reservations.BucketName{Limit: "openai"})
		if err := w.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := w.heads(); got != "a b" {
			t.Errorf("after the outage: %s", got)
		}
	})
}

// Without Redis no place can be stored. asynq delivers the task, as soon as its whole seconds allow.
func TestWaitWithoutRedis(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := memredis.Serve(t)
		client := server.Client(t)
		l := limiter(t, store(), perSecond(1, 1))
		s := newScheduler(t, client, l, exact())
		ask(t, l, requests(2))
		o := ask(t, l, requests(1))
		server.SetError("LOADING busy")
		turn, err := inside.Of(s).Arrive(t.Context(), named("a"), []reservations.Charge{requests(1)})
		if err == nil || turn.State != waitlist.StateNew || len(turn.Charges) != 1 || turn.Behind(requests(1)) {
			t.Errorf("turn = %+v, %v", turn, err)
		}
		err = inside.Of(s).Wait(t.Context(), named("a"), turn, dispatcher.Stop{Charge: requests(1), Outcome: o})
		deferred, ok := errors.AsType[*dispatcher.DeferredError](err)
		if !ok || dispatcher.IsFailure(err) {
			t.Fatal(err)
		}
		if d := time.Until(deferred.Snooze(nil).Until); d > o.Wait()+time.Second {
			t.Errorf("%v comes back in %v, want %v and a second", err, d, o.Wait())
		}
		server.SetError("")
		if err := s.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

func TestDeferralText(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	e := &dispatcher.DeferredError{
		Bucket: "openai", State: bucket.StateReserved, Until: at, Delay: 12300 * time.Millisecond,
	}
	const until = "until 2026-11-22T12:00:00.000Z, 12.3s from 2026-11-22T11:59:47.700Z"
	if got, want := e.Error(), "waiting for limit openai (reserved): "+until; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	e.Cause = errors.New("\xff no route")
	if got, want := e.Error(), "waiting for limit openai (reserved), which could not be asked: "+until+
		": � no route"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	e.Refusal = asynq.SkipRetry
	if errors.Is(e, asynq.SkipRetry) || !errors.Is(e, dispatcher.ErrDeferred) {
		t.Error("a deferral has asynq archive its task")
	}
}
