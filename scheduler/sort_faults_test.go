package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/envelope"
	"github.com/headway-go/headway/internal/waitlist"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// cut is a Redis client that is cut off at a command. From then on nothing reaches the server, as after a kill.
type cut struct {
	mu  sync.Mutex // guards the fields below
	at  func(args []any) bool
	off bool
}

func (c *cut) fails(commands ...redis.Cmder) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, command := range commands {
		c.off = c.off || c.at != nil && c.at(command.Args())
	}
	return c.off
}

var errCut = errors.New("cut off")

func (c *cut) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *cut) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		if c.fails(command) {
			command.SetErr(errCut)
			return errCut
		}
		return next(ctx, command)
	}
}

func (c *cut) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		if c.fails(commands...) {
			for _, command := range commands {
				command.SetErr(errCut)
			}
			return errCut
		}
		return next(ctx, commands)
	}
}

// cutOff connects to the server of client, and is cut off at the first command that at picks.
func cutOff(t *testing.T, client redis.UniversalClient, at func(args []any) bool) (redis.UniversalClient, *cut) {
	t.Helper()
	other := redisOf(t, &redis.Options{
		Addr: client.(*redis.Client).Options().Addr, DB: client.(*redis.Client).Options().DB, MaxRetries: -1,
	})
	c := &cut{at: at}
	other.AddHook(c)
	return other, c
}

func mentions(text string) func([]any) bool {
	return func(args []any) bool {
		return slices.ContainsFunc(args, func(arg any) bool { return strings.Contains(fmt.Sprintf("%s", arg), text) })
	}
}

// busy returns a limiter of one task a minute with an empty bucket.
func busy(t *testing.T) *reservations.Limiter {
	t.Helper()
	l := limiter(t, store(), perSecond(1./60, 1))
	if o := ask(t, l, openai("").Charges()[0]); !o.Started() {
		t.Fatalf("%+v", o)
	}
	return l
}

// schedules matches the command that schedules the tasks in asynq. It is the only one with the scheduled set as its
// only key.
func schedules(args []any) bool {
	return len(args) > 4 && fmt.Sprint(args[2], args[3]) == "1asynq:{default}:scheduled"
}

// If a process is killed while it sorts, asynq's retry set delivers each task that is in no waitlist.
func TestSortKilled(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]func([]any) bool{
		"before the tasks join":            mentions(`{"requests":1}`),
		"before asynq schedules the tasks": schedules,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := mini(t)
			s := newScheduler(t, client, busy(t), exact())
			backlog(t, s, 100)
			other, c := cutOff(t, client, at)
			killed := newScheduler(t, other, busy(t), exact())
			if err := killed.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			killed.Engine().Sort("default", envelope.Charges, nil)
			_ = killed.Stop(t.Context())
			if !c.fails() {
				t.Fatal("it was not cut off")
			}
			scheduled, err := asynq.NewInspectorFromRedisClient(client).ListScheduledTasks("default", asynq.PageSize(1000))
			if err != nil {
				t.Fatal(err)
			}
			for _, info := range scheduled {
				turn, err := s.Engine().Arrive(t.Context(), waitlist.Task{Queue: "default", ID: info.ID}, nil)
				if err != nil {
					t.Fatal(err)
				}
				if in := time.Until(info.NextProcessAt); turn.State == waitlist.StateNew && in > 20*time.Second {
					t.Fatalf("asynq delivers %s, which waits nowhere, in %v", info.ID, in)
				}
			}
			if len(scheduled) != 90 {
				t.Errorf("%d tasks are scheduled", len(scheduled))
			}
		})
	}
}

// A task with a place that asynq delivers by itself keeps its place.
func TestSortKeepsPlaces(t *testing.T) {
	t.Parallel()
	client := mini(t)
	s := newScheduler(t, client, busy(t), exact())
	var args []tasks.Args
	for i := range 70 {
		c := openai("")
		c.Fixed.ID = fmt.Sprintf("r%04d", i)
		args = append(args, c)
	}
	if _, err := s.EnqueueMany(t.Context(), args, tasks.Options{Reserved: true}); err != nil {
		t.Fatal(err)
	}
	inspector := asynq.NewInspectorFromRedisClient(client)
	if n, err := inspector.RunAllScheduledTasks("default"); err != nil || n != len(args) { // like asynq's forwarder
		t.Fatalf("%d, %v", n, err)
	}
	want := next(t, client)
	start(t, s)
	sortedNone(t, s, envelope.Charges, client, want) // no task is scheduled again
}

// Unlimited tasks are delivered while a store is slow. Woken tasks stay in front of them.
func TestSortLeavesTheOthersWhereTheyAre(t *testing.T) {
	t.Parallel()
	client := mini(t)
	asked, answer := make(chan struct{}), make(chan struct{})
	s := newScheduler(t, client, limiter(t, slowStore{store(), asked, answer}, perSecond(1./60, 1)), exact())
	_, free := backlog(t, s, 100)
	if _, err := s.Enqueue(t.Context(), call{Fixed: tasks.Options{ID: "woken"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		p.LRem(t.Context(), "asynq:{default}:pending", 1, "woken")
		p.RPush(t.Context(), "asynq:{default}:pending", "woken")
		return p.HSet(t.Context(), "asynq:{default}:t:woken", "headway_woken", 1).Err()
	}); err != nil {
		t.Fatal(err)
	}
	start(t, s)
	s.Engine().Sort("default", envelope.Charges, nil)
	<-asked
	want := append([]string{"woken"}, free...)
	others := func() []string { // the dispatcher may put a limited task between them
		limited := func(id string) bool { return !slices.Contains(want, id) }
		return slices.DeleteFunc(next(t, client), limited)
	}
	if diff := cmp.Diff(want, others()); diff != "" {
		t.Errorf("delivered next, while the store is asked (-want +got):\n%s", diff)
	}
	close(answer)
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, others()); diff != "" {
		t.Errorf("delivered next (-want +got):\n%s", diff)
	}
}

// Stop ends with its context, even if the store does not answer.
func TestStopWhileSorting(t *testing.T) {
	t.Parallel()
	client := mini(t)
	asked, answer := make(chan struct{}), make(chan struct{})
	defer close(answer)
	s := newScheduler(t, client, patient(t, slowStore{store(), asked, answer}), exact())
	backlog(t, s, 100)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Engine().Sort("default", envelope.Charges, nil)
	<-asked
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.Stop(ctx) }()
	if err := receive(t, ended); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err = %v", err)
	}
}

// A task that is withdrawn while it is sorted leaves no place and no reservation.
func TestWithdrawWhileSorting(t *testing.T) {
	t.Parallel()
	client := mini(t)
	asked, answer := make(chan struct{}), make(chan struct{})
	l := patient(t, slowStore{store(), asked, answer})
	s := newScheduler(t, client, l, exact())
	s.Engine().SortTimeout = time.Hour // a machine that stalls sorts too
	limited, _ := backlog(t, s, 100)
	start(t, s)
	s.Engine().Sort("default", envelope.Charges, nil)
	<-asked
	const withdrawn = 10
	got, err := s.Withdraw(t.Context(), "default", limited[:withdrawn]...)
	if err != nil || slices.Contains(got, nil) {
		t.Fatalf("%+v, %v", got, err)
	}
	close(answer)
	if err = s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	const want = 90 - withdrawn
	list, err := s.Engine().Waitlist(t.Context(), "openai")
	if err != nil || list.Waiting+list.Promoted != want { // the bucket has room for one
		t.Errorf("%d tasks wait, %d are promoted, not %d together, %v", list.Waiting, list.Promoted, want, err)
	}
	view, err := l.View(t.Context(), "openai", "")
	if err != nil || math.Round(view.Meters[0].Promised) != want {
		t.Errorf("%+v is promised, not %d, %v", view.Meters, want, err)
	}
	for i, id := range limited {
		turn, err := s.Engine().Arrive(t.Context(), waitlist.Task{Queue: "default", ID: id}, nil)
		if err != nil || (turn.State == waitlist.StateNew) != (i < withdrawn) {
			t.Fatalf("%s: %+v, %v", id, turn, err)
		}
	}
}

// patient returns a limiter of one task an hour. Its calls outlast a test.
func patient(t *testing.T, s reservations.Store) *reservations.Limiter {
	t.Helper()
	l, err := reservations.New(s, []reservations.Limit{perSecond(1./3600, 1)}, reservations.Config{CallTimeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// slowStore reports its first request, and answers when answer is closed.
type slowStore struct {
	reservations.Store

	asked, answer chan struct{}
}

func (s slowStore) Apply(
	ctx context.Context, l bucket.Limit, key string, requests []bucket.Request,
) ([]bucket.Answer, error) {
	select {
	case <-s.answer:
	default:
		close(s.asked)
		select {
		case <-s.answer:
		case <-ctx.Done():
			return nil, &bucket.UnavailableError{Bucket: l.Name, Applied: bucket.AppliedNo, Err: ctx.Err()}
		}
	}
	return s.Store.Apply(ctx, l, key, requests)
}
