package tasks_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

func TestOptionsWith(t *testing.T) {
	t.Parallel()
	all := tasks.Options{
		Queue: "q", ID: "i", MaxRetry: 1, Timeout: 2, Retention: 3, Unique: "u", At: time.Unix(1, 0),
		StartBy: time.Unix(2, 0),
	}
	if got := all.With(tasks.Options{}); got != all {
		t.Errorf("nothing over: %+v", got)
	}
	if got := (tasks.Options{Queue: "p", MaxRetry: 9}).With(all); got != all {
		t.Errorf("all over: %+v", got)
	}
	if got := all.With(tasks.Options{MaxRetry: tasks.NoRetry}).Retries(); got != 0 {
		t.Errorf("retries %d, want none", got)
	}
	if got := (tasks.Options{}).Retries(); got != 25 {
		t.Errorf("retries %d, want 25", got)
	}
}

func TestOptionsValidate(t *testing.T) {
	t.Parallel()
	for field, o := range map[string]tasks.Options{
		"queue":     {Queue: "  "},
		"id":        {ID: "\t"},
		"max_retry": {MaxRetry: -2},
		"timeout":   {Timeout: -time.Second},
		"retention": {Retention: -1},
		"unique":    {Unique: "  "},
		"start_by":  {At: time.Unix(2, 0), StartBy: time.Unix(1, 0)},
	} {
		err := o.Validate()
		if wrong, ok := errors.AsType[*reservations.FieldError](err); !ok || wrong.Field != field {
			t.Errorf("%+v: %v, want a fault of %s", o, err, field)
		}
	}
	if err := (tasks.Options{
		MaxRetry: tasks.MaxRetryLargest + 1, Timeout: -1, Unique: strings.Repeat("u", 501),
	}).Validate(); strings.Count(fmt.Sprint(err), "\n") != 2 {
		t.Errorf("three faults: %v", err)
	}
	if err := (tasks.Options{}).Validate(); err != nil {
		t.Error(err)
	}
}

// asynq stores the options that were set. A round trip through its store changes neither payload nor headers.
func TestOptionsAsAsynqKeepsThem(t *testing.T) {
	t.Parallel()
	redis := asynq.RedisClientOpt{Addr: miniredis.RunT(t).Addr()}
	client, inspector := asynq.NewClient(redis), asynq.NewInspector(redis)
	t.Cleanup(func() { _, _ = client.Close(), inspector.Close() })

	e, err := tasks.Encode(summary{DocumentID: "1"}, tasks.Options{ID: "one", Retention: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = client.EnqueueContext(t.Context(), e.Task, e.Options.Asynq()...); err != nil {
		t.Fatal(err)
	}
	info, err := inspector.GetTaskInfo("summaries", "one")
	if err != nil {
		t.Fatal(err)
	}
	type kept struct {
		Payload            string
		Headers            map[string]string
		MaxRetry           int
		Timeout, Retention time.Duration
	}
	got := kept{string(info.Payload), info.Headers, info.MaxRetry, info.Timeout, info.Retention}
	want := kept{string(e.Task.Payload()), e.Task.Headers(), 3 + tasks.Slack, 2 * time.Second, time.Second}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTimesTravelInTheHeaders(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_800_000_000_123)
	e, err := tasks.Encode(summary{DocumentID: "1"}, tasks.Options{At: at, StartBy: at.Add(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	if got := tasks.At(e.Task); !got.Equal(at) {
		t.Errorf("at %v, want %v", got, at)
	}
	if got := tasks.StartBy(e.Task); !got.Equal(at.Add(time.Minute)) {
		t.Errorf("start by %v", got)
	}
	if err = tasks.CheckStart(e.Task, at.Add(time.Minute-time.Millisecond)); err != nil {
		t.Errorf("in time: %v", err)
	}
	err = tasks.CheckStart(e.Task, at.Add(time.Minute))
	for _, want := range []error{tasks.ErrExpired, tasks.ErrPermanent, asynq.SkipRetry} {
		if !errors.Is(err, want) {
			t.Errorf("too late: %v, want %v", err, want)
		}
	}
	for _, text := range []string{"", "x", "1e3", strings.Repeat("9", 30)} {
		foreign := asynq.NewTaskWithHeaders("a", nil, map[string]string{tasks.HeaderStartBy: text, tasks.HeaderAt: text})
		if err = tasks.CheckStart(foreign, at); err != nil || !tasks.At(foreign).IsZero() {
			t.Errorf("%q: %v", text, err)
		}
	}
}
