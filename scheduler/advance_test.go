package scheduler_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
)

// advances is a store that remembers by how much lines were to be moved on, and can be away.
type advances struct {
	*memstore.Store

	asked []time.Duration
	away  bool
	hangs chan struct{} // told of who asks; nil is nobody
	hung  chan struct{} // closed for those to be answered
}

func (a *advances) Apply(ctx context.Context, l reservations.Limit, key string, requests []reservations.Request) ([]reservations.Outcome, error) {
	if last := requests[len(requests)-1]; last.Op == reservations.OpAdvance {
		if a.hangs != nil {
			a.hangs <- struct{}{}
			<-a.hung
		}
		a.asked = append(a.asked, last.For)
		if a.away {
			return nil, &reservations.UnavailableError{Bucket: l.Name, Err: errors.New("away")}
		}
	}
	return a.Store.Apply(ctx, l, key, requests)
}

// line is a limit whose tasks wait, and a scheduler that is on duty.
type line struct {
	*scheduler.Scheduler

	limiter *reservations.Limiter
	store   *advances
	look    func() (soon bool)
	now     time.Time // of who looks
}

// waitingLine lets tasks 0 to n-1 wait for a limit, each of which has a key of its own if so said.
func waitingLine(t *testing.T, client redis.UniversalClient, l reservations.Limit, n int, keys bool) *line {
	t.Helper()
	a := &advances{Store: memstore.New(nil)}
	ln := &line{limiter: limiter(t, a, l), store: a, now: time.Now()}
	s := newScheduler(t, client, ln.limiter, exact())
	many := make([]tasks.Args, n)
	for i := range many {
		c := openai(strconv.Itoa(i))
		c.Fixed.ID = c.Name
		if keys {
			c.Key = c.Name
		}
		many[i] = c
	}
	if _, err := s.EnqueueMany(t.Context(), many, scheduler.Reserved()); err != nil {
		t.Fatal(err)
	}
	ln.Scheduler, ln.look = s, s.Advancer(t, func() time.Time { return ln.now })
	if ln.look(); len(a.asked) > 0 {
		t.Fatalf("a bucket was asked by who is not on duty: %v", a.asked)
	}
	s.GoOnDuty(t)
	return ln
}

// withdraw takes tasks back, and lets the line know.
func (l *line) withdraw(t *testing.T, ids ...int) {
	t.Helper()
	for _, id := range ids {
		if info, err := l.Withdraw(t.Context(), scheduler.Task{Queue: "default", ID: strconv.Itoa(id)}); err != nil || info == nil {
			t.Fatalf("task %d: %v, %v", id, info, err)
		}
	}
	l.SendMoves(t)
}

// first is how long until the first is due.
func (l *line) first(t *testing.T) time.Duration {
	t.Helper()
	l.SendMoves(t)
	lines, _, err := l.Lines(t.Context(), "openai", 10)
	if err != nil || len(lines) != 1 {
		t.Fatalf("%+v, %v", lines, err)
	}
	return lines[0].First.Sub(lines[0].Now)
}

// wantFirst expects the first to be due in about d.
func (l *line) wantFirst(t *testing.T, d time.Duration) {
	t.Helper()
	if first := l.first(t); !about(first, d) {
		t.Errorf("the first is due in %v, want %v", first, d)
	}
}

// wantAsked expects a look that asks buckets so often in all, and after which nothing has to be looked at soon.
func (l *line) wantAsked(t *testing.T, n int) {
	t.Helper()
	if soon := l.look(); soon || len(l.store.asked) != n {
		t.Errorf("look again soon: %v, asked %v, want %d", soon, l.store.asked, n)
	}
}

func about(a, b time.Duration) bool { return (a - b).Abs() < 5*time.Second }

// One a minute.
func slow() reservations.Limit { return perSecond(1./60, 1) }

// When those in front are withdrawn, those behind them come as much sooner, and no more than that.
func TestLineMovesUpWhenTasksAreWithdrawn(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		l := waitingLine(t, client, slow(), 10, false) // due now, after 1 minute, ... 9 minutes
		if l.look(); len(l.store.asked) > 0 {
			t.Errorf("asked though all is well: %v", l.store.asked)
		}
		l.withdraw(t, 0, 1, 2, 3)
		l.wantFirst(t, 4*time.Minute)
		l.wantAsked(t, 1)
		l.wantFirst(t, 0) // a full bucket waits for it
		for range 3 {
			l.look()
		}
		l.wantFirst(t, 0) // it is not moved again
	})
}

// What was withdrawn behind the first ones is kept in mind, and made up for when the bucket has more than the first needs. A line that has emptied has no gap.
func TestGapIsMadeUpForLater(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		l := waitingLine(t, client, perSecond(1./60, 4), 8, false) // four of them are due now, the others after 1 minute, ... 4 minutes
		l.withdraw(t, 4, 5)
		for l.look() {
			l.SendMoves(t)
		}
		// The bucket is full, for those that are due have not come yet: so all is made up for, in steps of a task.
		if want := []time.Duration{time.Minute, time.Minute}; !slices.EqualFunc(l.store.asked, want, about) {
			t.Errorf("asked for %v", l.store.asked)
		}
		l.store.asked = nil
		for range 3 {
			l.now = l.now.Add(time.Minute)
			l.look()
		}
		if len(l.store.asked) > 0 {
			t.Errorf("asked for %v though all is made up for", l.store.asked)
		}
		l.withdraw(t, 0, 1, 2, 3, 6, 7)
		if l.look(); len(l.store.asked) > 0 {
			t.Errorf("asked for a line where nobody waits: %v", l.store.asked)
		}
		if n, err := client.Exists(t.Context(), "headway:{line}:gaps").Result(); err != nil || n > 0 {
			t.Errorf("gaps of a line where nobody waits are kept: %v", err)
		}
	})
}

// A line whose places were lost is moved on as well, when its first task was seen twice to be due later than it has to be: others may have stood in front of it that were not noted yet.
func TestLineMovesUpWhenPlacesAreLost(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		l := waitingLine(t, client, slow(), 10, false)
		for i := range 5 {
			if _, err := l.Recall(t.Context(), scheduler.Task{Queue: "default", ID: strconv.Itoa(i)}); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			l.wantAsked(t, 0)
		}
		l.now = l.now.Add(2 * time.Second)
		l.wantAsked(t, 1)
		l.wantFirst(t, 0)
	})
}

// A bucket that can't move its line on is asked now and then, and the others wait while the store is away.
func TestBucketsAreNotAskedInVain(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		l := waitingLine(t, client, slow(), 3, true) // each alone, due now
		for i := range 3 {
			c := reservations.Charge{Limit: "openai", Key: strconv.Itoa(i)}
			o, err := l.limiter.Block(t.Context(), c.Limit, c.Key, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			l.Moved(c.Bucket(), o)
		}
		l.SendMoves(t)
		l.look()
		l.now = l.now.Add(2 * time.Second)
		l.store.away = true
		if l.look(); len(l.store.asked) != 1 {
			t.Errorf("asked %d times while the store is away", len(l.store.asked))
		}
		l.store.away, l.store.asked = false, nil
		for range 3 {
			l.look()
		}
		if n := len(l.store.asked); n != 2 { // the one that did not answer waits for its turn
			t.Errorf("asked %d times, want 2", n)
		}
		l.now = l.now.Add(time.Minute)
		if l.look(); len(l.store.asked) != 5 {
			t.Errorf("asked %d times, want 5", len(l.store.asked))
		}
	})
}

// Those who wait for the store, not for the bucket, come when it answers: it is not asked for them.
func TestOutageLineIsNotMoved(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		l := waitingLine(t, client, perSecond(1000, 1000), 1, false)
		place := reservations.Place{State: reservations.StateReserved, Due: time.Now().Add(time.Hour)}
		for id := range 3 { // due in one to two seconds
			task := scheduler.Task{Queue: "default", ID: strconv.Itoa(id)}
			if err := l.DeferOutage(t.Context(), task, openai("").Charges()[0], place, errors.New("away")); !errors.Is(err, scheduler.ErrDeferred) {
				t.Fatal(err)
			}
		}
		for range 2 {
			l.look()
			l.now = l.now.Add(2 * time.Second)
		}
		if len(l.store.asked) > 0 {
			t.Errorf("asked for %v", l.store.asked)
		}
	})
}

// Those who wait for a window come when it ends, whoever stood before them.
func TestWindowsAreNotMoved(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		window := reservations.Limit{Name: "openai", Meters: []reservations.Meter{{
			Name: "requests", Kind: reservations.KindWindow, Rate: 1, Period: time.Hour, MaxReserved: reservations.Unlimited,
		}}}
		l := waitingLine(t, client, window, 6, false)
		l.withdraw(t, 0, 1, 2, 3)
		if l.look(); len(l.store.asked) > 0 {
			t.Errorf("asked for %v", l.store.asked)
		}
	})
}

// All lines get their turn, however many there are, also where one of them has a gap, of whatever size, and others have places that nobody can read.
func TestManyLinesAreLookedAt(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		const many, broken = 150, 3
		l := waitingLine(t, client, slow(), many, true)
		for i := range many {
			c := reservations.Charge{Limit: "openai", Key: strconv.Itoa(i)}
			o, err := l.limiter.Block(t.Context(), c.Limit, c.Key, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			l.Moved(c.Bucket(), o)
		}
		l.SendMoves(t)
		lines, err := client.ZRange(t.Context(), "headway:{line}:index", 0, 0).Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range append(lines, "nobody:waits:here@1") {
			if err = client.ZAdd(t.Context(), "headway:{line}:gaps", redis.Z{Score: 1e18, Member: line}).Err(); err != nil {
				t.Fatal(err)
			}
		}
		for i, place := range []string{"", "{", `{"bucket":"no#0:such:thing","due":"2026-01-01T00:00:00Z"}`} {
			if err = client.HSet(t.Context(), "headway:{line}:place:default/"+strconv.Itoa(many-1-i), "place", place).Err(); err != nil {
				t.Fatal(err)
			}
		}
		for range 4 {
			l.look()
			l.now = l.now.Add(2 * time.Second)
		}
		if n := len(l.store.asked); n < many-broken {
			t.Errorf("asked %d buckets, want %d", n, many-broken)
		}
		if _, err = client.ZScore(t.Context(), "headway:{line}:gaps", "nobody:waits:here@1").Result(); !errors.Is(err, redis.Nil) {
			t.Errorf("the gap of a line where nobody waits is kept: %v", err)
		}
	})
}

// A store that does not answer holds nobody up who stops.
func TestStopWaitsForNoBucket(t *testing.T) {
	t.Parallel()
	l := waitingLine(t, mini(t), slow(), 5, false)
	l.store.hangs, l.store.hung = make(chan struct{}, 1), make(chan struct{})
	defer close(l.store.hung)
	if err := l.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.withdraw(t, 1, 2, 3)
	select {
	case <-l.store.hangs:
	case <-time.After(patience):
		t.Fatal("nobody asked")
	}
	stopping, cancel := context.WithTimeout(t.Context(), reservations.CallTimeoutDefault/2)
	defer cancel()
	if err := l.Stop(stopping); err != nil {
		t.Error(err)
	}
}
