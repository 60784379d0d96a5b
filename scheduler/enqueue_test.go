package scheduler_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
)

// unencodable is a payload that can't be encoded as JSON.
type unencodable struct{ F func() }

func (unencodable) TaskType() string { return "unencodable" }

func TestEnqueueChecksBeforeItSends(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := inMemory(t)
		limit := perSecond(10, 5)
		limit.Meters[0].MaxReserved = 5
		s := newScheduler(t, client, limiter(t, store(), limit), exact())
		unknown, large := openai("a"), openai("a")
		unknown.Limit, large.Requests = "opnai", 11
		for _, c := range []struct {
			name string
			args tasks.Args
			want error
			text string
		}{
			{"unknown limit", unknown, reservations.ErrUnknownLimit, `"opnai" is not configured; there is "openai"`},
			{"too large", large, reservations.ErrChargeTooLarge, "11 tokens are more than can ever be served"},
			{"unencodable", unencodable{}, tasks.ErrBadPayload, "unencodable"},
			{"nil", nil, tasks.ErrBadPayload, "no arguments"},
		} {
			_, err := s.Enqueue(t.Context(), c.args)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "task 0") {
				t.Errorf("%s: err = %v, want %v with %q", c.name, err, c.want, c.text)
			}
		}
		infos, err := s.EnqueueMany(t.Context(), []tasks.Args{openai("a"), unknown, openai("b"), large})
		if infos != nil || !errors.Is(err, reservations.ErrUnknownLimit) || !errors.Is(err, reservations.ErrChargeTooLarge) {
			t.Errorf("infos = %v, err = %v", infos, err)
		}
		for _, text := range []string{"task 1: ", "task 3: "} {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("err = %v, want it to name %q", err, text)
			}
		}
		if item, ok := errors.AsType[*scheduler.ItemError](err); !ok || item.Index != 1 {
			t.Errorf("err = %v, want an ItemError", err)
		}
		if n := client.DBSize(t.Context()).Val(); n != 0 {
			t.Errorf("%d keys were written", n)
		}
	})
}

func TestAllOptionFaultsAreReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(t, inMemory(t), nil, exact())
		_, err := s.EnqueueMany(t.Context(), []tasks.Args{openai("a"), openai("b")},
			tasks.Options{Queue: " ", ID: "x", MaxRetry: -2, Timeout: -1}, tasks.Options{Retention: -1, Unique: "\t"},
			tasks.Options{At: time.Now().Add(time.Hour), StartBy: time.Now()})
		if !errors.Is(err, tasks.ErrInvalidOptions) {
			t.Fatalf("err = %v, want ErrInvalidOptions", err)
		}
		for _, text := range []string{
			"queue: ", `id: "x" can't be that of 2 tasks`, "max_retry: ", "timeout: ", "retention: ", "unique: ",
			"start_by: ",
		} {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("err = %v, want %q in it", err, text)
			}
		}
	})
}

func TestOptionsReachAsynq(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := inMemory(t)
		s := newScheduler(t, client, nil, exact())
		at := time.Now().Add(time.Hour)
		info, err := s.Enqueue(t.Context(), openai("a"), tasks.Options{Queue: "slow", ID: "a", MaxRetry: 3},
			tasks.Options{Timeout: 1500 * time.Millisecond, Retention: time.Minute, Unique: "one", At: at})
		if err != nil {
			t.Fatal(err)
		}
		kept, err := asynq.NewInspectorFromRedisClient(client).GetTaskInfo("slow", "a")
		if err != nil {
			t.Fatal(err)
		}
		if kept.MaxRetry != 3+envelope.Slack || kept.Timeout != 2*time.Second || kept.Retention != time.Minute ||
			kept.State != asynq.TaskStateScheduled {
			t.Errorf("asynq has %+v", kept)
		}
		if kept.NextProcessAt.Before(at) || kept.NextProcessAt.After(at.Add(time.Second)) || !info.NextProcessAt.Equal(at) {
			t.Errorf("runs at %v, and asynq delivers it at %v, want %v or up to a second later", info.NextProcessAt,
				kept.NextProcessAt, at)
		}
		if n := envelope.MaxRetry(asynq.NewTaskWithHeaders(kept.Type, kept.Payload, kept.Headers), kept.MaxRetry); n != 3 {
			t.Errorf("our own count = %d, want 3", n)
		}
		_, err = s.Enqueue(t.Context(), openai("b"), tasks.Options{Queue: "slow", Unique: "one"})
		if d, ok := errors.AsType[*scheduler.DuplicateError](err); !ok || d.ID != "a" {
			t.Errorf("err = %v, want a DuplicateError of task a", err)
		}
		none, err := s.Enqueue(t.Context(), openai("b"),
			tasks.Options{MaxRetry: tasks.NoRetry, At: time.Now().Add(-time.Hour)})
		if err != nil || none.MaxRetry != envelope.Slack || none.State != asynq.TaskStatePending {
			t.Errorf("without retries: %+v, %v", none, err)
		}
	})
}

func TestEnqueueManyGoesOnAfterConflicts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(t, inMemory(t), limiter(t, store(), perSecond(10, 1)), exact())
		var args []tasks.Args
		for i := range 50 {
			args = append(args, call{Name: "c", Limit: "openai", Requests: 1, Fixed: tasks.Options{ID: strconv.Itoa(i % 40)}})
		}
		infos, err := s.EnqueueMany(t.Context(), args)
		if !errors.Is(err, asynq.ErrTaskIDConflict) {
			t.Fatalf("err = %v, want ErrTaskIDConflict", err)
		}
		sent := 0
		for _, info := range infos {
			if info != nil {
				sent++
			}
		}
		if sent != 40 {
			t.Errorf("%d tasks were enqueued, want 40", sent)
		}
		for _, o := range []tasks.Options{{SkipExisting: true}, {SkipExisting: true}} {
			if infos, err = s.EnqueueMany(t.Context(), args, o); err != nil || len(infos) != 50 || infos[0] != nil {
				t.Errorf("a second time: %v, %v", infos, err)
			}
		}
		if infos, err := s.EnqueueMany(t.Context(), nil); err != nil || len(infos) != 0 {
			t.Errorf("nothing to do: %v, %v", infos, err)
		}
	})
}

func TestEnqueueManyStopsWhenRedisIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := memredis.Serve(t)
		client := server.Client(t)
		s := newScheduler(t, client, limiter(t, store(), perSecond(10, 1)), exact())
		server.SetError("LOADING busy")
		var args []tasks.Args
		for range 1000 {
			args = append(args, openai("a"))
		}
		infos, err := s.EnqueueMany(t.Context(), args)
		if err == nil || !strings.Contains(err.Error(), "LOADING busy") ||
			!strings.Contains(err.Error(), "of 1000 tasks were not sent") {
			t.Errorf("err = %v", err)
		}
		if len(infos) != 1000 || strings.Count(err.Error(), "LOADING") > 8 {
			t.Errorf("%d infos; err = %v, want it to stop at the first errors", len(infos), err)
		}
	})
}

// asynq hides the end of a context behind its own error.
func TestEnqueueEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := inMemory(t)
		s := newScheduler(t, client, limiter(t, store(), perSecond(10, 1)), exact())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.EnqueueMany(ctx, []tasks.Args{openai("a"), openai("b")}); !errors.Is(err, context.Canceled) {
			t.Errorf("EnqueueMany: %v", err)
		}
		if _, err := s.Enqueue(ctx, openai("a")); !errors.Is(err, context.Canceled) {
			t.Errorf("Enqueue: %v", err)
		}
	})
}
