package envelope_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

func TestOptionsMerge(t *testing.T) {
	t.Parallel()
	all := tasks.Options{
		Queue: "q", ID: "i", MaxRetry: 1, Timeout: 2, Retention: 3, Unique: "u", At: time.Unix(1, 0),
		StartBy: time.Unix(2, 0),
	}
	if got := envelope.Merge(all, tasks.Options{}); got != all {
		t.Errorf("nothing over: %+v", got)
	}
	if got := envelope.Merge(tasks.Options{Queue: "p", MaxRetry: 9}, all); got != all {
		t.Errorf("all over: %+v", got)
	}
	if got := envelope.Retries(envelope.Merge(all, tasks.Options{MaxRetry: tasks.NoRetry})); got != 0 {
		t.Errorf("retries %d, want none", got)
	}
	if got := envelope.Retries(tasks.Options{}); got != 25 {
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
		err := envelope.Validate(o)
		if wrong, ok := errors.AsType[*reservations.FieldError](err); !ok || wrong.Field != field {
			t.Errorf("%+v: %v, want a fault of %s", o, err, field)
		}
	}
	if err := envelope.Validate(tasks.Options{
		MaxRetry: 1_000_000 + 1, Timeout: -1, Unique: strings.Repeat("u", 501),
	}); strings.Count(fmt.Sprint(err), "\n") != 2 {
		t.Errorf("three faults: %v", err)
	}
	if err := envelope.Validate(tasks.Options{}); err != nil {
		t.Error(err)
	}
}

// Names that people can't read or stores can't keep, and times that overflow, are refused where a task is made.
func TestOptionsThatCannotBeKept(t *testing.T) {
	t.Parallel()
	far := time.Date(2201, 1, 1, 0, 0, 0, 0, time.UTC)
	names := []string{"a\x00b", "a\xffb", "a\nb", "\x1b[2J", "\u202eabc", "a\u2028b", strings.Repeat("x", 10_000)}
	bad := map[string][]tasks.Options{
		"queue": {{Queue: "a}b{c"}, {Queue: "headway:callers"}}, "timeout": {{Timeout: math.MaxInt64}},
		"retention": {{Retention: math.MaxInt64}}, "at": {{At: far}, {At: time.UnixMilli(math.MaxInt64)}},
		"start_by": {{StartBy: far}, {StartBy: time.Date(300_000, 1, 1, 0, 0, 0, 0, time.UTC)}},
	}
	for _, name := range names {
		bad["queue"] = append(bad["queue"], tasks.Options{Queue: name})
		bad["id"] = append(bad["id"], tasks.Options{ID: name})
		bad["unique"] = append(bad["unique"], tasks.Options{Unique: name})
	}
	for field, all := range bad {
		for _, o := range all {
			_, err := envelope.Encode(summary{DocumentID: "1"}, o)
			wrong, ok := errors.AsType[*reservations.FieldError](err)
			if !ok || wrong.Field != field || !errors.Is(err, tasks.ErrInvalidOptions) || len(err.Error()) > 400 {
				t.Errorf("%.60q: %.400v, want a fault of %s", fmt.Sprint(o), err, field)
			}
		}
	}
	for _, o := range []tasks.Options{
		{Queue: "mail:send/äöü 1", ID: "b/1/2", Unique: "tenant {1}"}, {At: time.Date(-3000, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		if err := envelope.Validate(o); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// asynq stores the options that were set. A round trip through its store changes neither payload nor headers.
func TestOptionsAsAsynqKeepsThem(t *testing.T) {
	t.Parallel()
	redis := asynq.RedisClientOpt{Addr: miniredis.RunT(t).Addr()}
	client, inspector := asynq.NewClient(redis), asynq.NewInspector(redis)
	t.Cleanup(func() { _, _ = client.Close(), inspector.Close() })

	e, err := envelope.Encode(summary{DocumentID: "1"}, tasks.Options{ID: "one", Retention: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = client.EnqueueContext(t.Context(), e.Task, envelope.Asynq(e.Options)...); err != nil {
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
	want := kept{string(e.Task.Payload()), e.Task.Headers(), 3 + envelope.Slack, 2 * time.Second, time.Second}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTimesTravelInTheHeaders(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_800_000_000_123)
	e, err := envelope.Encode(summary{DocumentID: "1"}, tasks.Options{At: at, StartBy: at.Add(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	if got := envelope.At(e.Task); !got.Equal(at) {
		t.Errorf("at %v, want %v", got, at)
	}
	if got := envelope.StartBy(e.Task); !got.Equal(at.Add(time.Minute)) {
		t.Errorf("start by %v", got)
	}
	if err = envelope.CheckStart(e.Task, at.Add(time.Minute-time.Millisecond)); err != nil {
		t.Errorf("in time: %v", err)
	}
	err = envelope.CheckStart(e.Task, at.Add(time.Minute))
	for _, want := range []error{tasks.ErrExpired, tasks.ErrPermanent, asynq.SkipRetry} {
		if !errors.Is(err, want) {
			t.Errorf("too late: %v, want %v", err, want)
		}
	}
	for _, text := range []string{"", "x", "1e3", strings.Repeat("9", 30)} {
		headers := map[string]string{envelope.HeaderStartBy: text, envelope.HeaderAt: text}
		foreign := asynq.NewTaskWithHeaders("a", nil, headers)
		if err = envelope.CheckStart(foreign, at); err != nil || !envelope.At(foreign).IsZero() {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// The faults of options have one order.
func TestValidateOrdersItsFaults(t *testing.T) {
	t.Parallel()
	late := time.Date(2300, time.January, 1, 0, 0, 0, 0, time.UTC)
	o := tasks.Options{Timeout: -1, Retention: -1, At: late, StartBy: late}
	want := envelope.Validate(o).Error()
	for range 20 {
		if got := envelope.Validate(o).Error(); got != want {
			t.Fatalf("%s\nand then\n%s", want, got)
		}
	}
}
