package record_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/documents/redisdocs"
	"github.com/headway-go/headway/internal/products/batch"
	"github.com/headway-go/headway/internal/products/record"
	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/internal/test/network"
	"github.com/headway-go/headway/internal/text/batchref"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/llm"
	"github.com/headway-go/headway/tasks/web"
	"github.com/headway-go/headway/worker"
)

var errBroken = errors.New("broken")

var discard = slog.New(slog.DiscardHandler)

// status is an error with an answer of that status.
func status(code int) error {
	return &web.Error{Answer: web.Answer{StatusCode: code, RequestID: "req_1", Body: []byte(`{"error":{}}`)}}
}

// away returns documents in a Redis in memory, and the wire to it.
func away(t *testing.T) (documents.Store, *network.Wire) {
	t.Helper()
	wire := network.New(network.NewConditions(1, 1, 0, time.Millisecond), memredis.Open(t).Serve)
	client := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:6379", Dialer: wire.Dial, DialerRetries: 1, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { _ = client.Close() })
	return redisdocs.New(client), wire
}

// storeIn returns the batches of a store, one of which is open.
func storeIn(t *testing.T, in documents.Store) *batches.Store {
	t.Helper()
	s := batches.New(in, batches.Options{})
	if _, _, err := s.Open(t.Context(), batches.Batch{ID: "b", Key: "key", Lines: 100, Requests: 100}); err != nil {
		t.Fatal(err)
	}
	return s
}

func newRecorder(t *testing.T) (*record.Recorder, *batches.Store) {
	t.Helper()
	s := storeIn(t, redisdocs.New(memredis.Start(t)))
	return recorderOf(t, s), s
}

func recorderOf(t *testing.T, s *batches.Store) *record.Recorder {
	t.Helper()
	r := record.New(s, discard, func(taskType string, payload []byte) (record.Request, bool) {
		return requestOf(len(payload)), taskType == "test" && len(payload) > 0
	})
	t.Cleanup(r.Close)
	return r
}

func requestOf(line int) record.Request {
	return record.Request{
		Ref: batchref.Ref{Batch: "b", Line: line}.Signed("key"), Model: "m", Line: batch.Line{
			CustomID: "x", Method: "POST", URL: "/v1/a", Body: json.RawMessage(`{"a":"<"}`),
		},
	}
}

// attempt returns an attempt of the task of a line, with four attempts at most.
func attempt(line, number int) record.Attempt {
	return record.Attempt{ID: requestOf(line).Ref.TaskID(), Number: number, MaxRetry: 3, Reserved: 9, Unused: func() {}}
}

func fails(err error) func(context.Context) (record.Answer, error) {
	return func(context.Context) (record.Answer, error) { return record.Answer{}, err }
}

func TestHowACallEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, howACallEnds)
}

func howACallEnds(t *testing.T) {
	rec, store := newRecorder(t)
	good := record.Answer{
		Response: batches.Response{StatusCode: 200, Body: []byte(`{}`)},
		Usage:    batches.Usage{Used: 5},
	}
	line := 0
	for name, tc := range map[string]struct {
		number   int
		err      error
		ended    bool
		attempts int
		failure  string
		code     int
	}{
		"success":    {number: 1, ended: true, code: 200},
		"failure":    {number: 1, err: errBroken, attempts: 1},
		"bad status": {number: 1, err: status(500), attempts: 1},
		"last failure": {
			number: 4, err: errBroken, ended: true, attempts: 1,
			failure: record.CodeFailed,
		},
		"last, in no time": {
			number: 4, err: context.DeadlineExceeded, ended: true, attempts: 1,
			failure: record.CodeTimeout,
		},
		"last, answered": {number: 4, err: status(503), ended: true, attempts: 1, code: 503},
		"last, redirected": {
			number: 4, err: status(302), ended: true, attempts: 1,
			failure: record.CodeFailed, code: 302,
		},
		"permanent": {
			number: 1, err: tasks.Permanent(status(400)), ended: true, attempts: 1,
			code: 400,
		},
		"refused":            {number: 1, err: reservations.RetryAfter(time.Second, status(429))},
		"refused at the end": {number: 4, err: reservations.RetryAfter(time.Second, status(429))},
	} {
		line++
		q := requestOf(line)
		err := rec.Run(t.Context(), attempt(line, tc.number), q, func(context.Context) (record.Answer, error) {
			if tc.err != nil {
				return record.Answer{}, tc.err
			}
			return good, nil
		})
		if !errors.Is(err, tc.err) {
			t.Errorf("%s: %v", name, err)
		}
		r, ended, err := store.Find(t.Context(), "b", line)
		if err != nil || ended != tc.ended || len(r.Attempts) != tc.attempts {
			t.Fatalf("%s: %v, %v, %+v", name, err, ended, r)
		}
		if !ended {
			continue
		}
		if r.Failed() != (tc.err != nil) {
			t.Errorf("%s: failed: %v", name, r.Failed())
		}
		if tc.err != nil {
			if diff := cmp.Diff(`{"custom_id":"x","method":"POST","url":"/v1/a","body":{"a":"<"}}`,
				string(r.Request)); diff != "" {
				t.Error(name, diff)
			}
		} else if r.Usage.Reserved != 9 || r.Usage.Used != 5 {
			t.Errorf("%s: %+v", name, r.Usage)
		}
		if tc.code != 0 && (r.Response == nil || r.Response.StatusCode != tc.code) || tc.failure != "" &&
			(r.Failure == nil || r.Failure.Code != tc.failure) {
			t.Errorf("%s: %+v, %+v", name, r.Response, r.Failure)
		}
	}
}

// A task that was delivered before makes no call if its request has a result, or was put back as another task.
func TestDeliveredAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, deliveredAgain)
}

func deliveredAgain(t *testing.T) {
	rec, store := newRecorder(t)
	if err := store.Finish(t.Context(), batches.Result{
		Batch: "b", Line: 1,
		Response: &batches.Response{StatusCode: 200},
	}); err != nil {
		t.Fatal(err)
	}
	if err := rec.Run(t.Context(), attempt(2, 4), requestOf(2), fails(errBroken)); !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	if _, err := store.Reopen(t.Context(), "b", 0,
		func(context.Context, []batches.Result) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for _, line := range []int{1, 2} {
		unused := false
		a := attempt(line, 2)
		a.Unused = func() { unused = true }
		err := rec.Run(t.Context(), a, requestOf(line), func(context.Context) (record.Answer, error) {
			t.Errorf("line %d was asked again", line)
			return record.Answer{}, nil
		})
		if err != nil || !unused {
			t.Errorf("line %d: %v, unused: %v", line, err, unused)
		}
	}
}

// A result waits while the database is down, and the call is made once.
func TestResultOutlastsAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, resultOutlastsAnOutage)
}

func resultOutlastsAnOutage(t *testing.T) {
	in, wire := away(t)
	store := storeIn(t, in)
	rec := recorderOf(t, store)
	calls := 0
	began := time.Now()
	err := rec.Run(t.Context(), attempt(1, 1), requestOf(1), func(context.Context) (record.Answer, error) {
		calls++
		wire.Set(network.Refuse)
		time.AfterFunc(time.Minute, func() { wire.Set(network.Up) })
		return record.Answer{Response: batches.Response{StatusCode: 200, Body: []byte("{}")}}, nil
	})
	if _, ok, failed := store.Find(t.Context(), "b", 1); err != nil || failed != nil || !ok || calls != 1 {
		t.Errorf("%v, %v, %v, %d calls", err, failed, ok, calls)
	}
	if waited := time.Since(began); waited < time.Minute || waited > 70*time.Second {
		t.Errorf("written after %v", waited)
	}
}

func TestCancelledBatchIsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, cancelledBatchIsDropped)
}

func cancelledBatchIsDropped(t *testing.T) {
	rec, store := newRecorder(t)
	if err := store.Cancel(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	for dropped := false; !dropped && t.Context().Err() == nil; { // the first call only starts the query
		err := rec.Run(t.Context(), attempt(1, 1), requestOf(1), fails(reservations.RetryAfter(time.Second, errBroken)))
		dropped = errors.Is(err, record.ErrCancelled) && errors.Is(err, asynq.RevokeTask)
	}
	if err := store.Resume(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	// Run checks the batch before it drops the task
	if err := rec.Run(t.Context(), attempt(1, 1), requestOf(1), fails(errBroken)); !errors.Is(err, errBroken) {
		t.Error(err)
	}
}

// A task that asynq archives without its handler has a result.
func TestArchivedTaskHasAResult(t *testing.T) {
	t.Parallel()
	synctest.Test(t, archivedTaskHasAResult)
}

func archivedTaskHasAResult(t *testing.T) {
	rec, store := newRecorder(t)
	events := rec.Event
	events(worker.Event{
		Kind: worker.KindRejected, Task: worker.TaskRef{ID: "b-3-0", Type: "test"}, Err: errBroken,
		Payload: []byte("abc"),
	})
	events(worker.Event{
		Task: worker.TaskRef{ID: "b-4-0", Type: "test"}, Kind: worker.KindArchived,
		Err: status(429), Payload: []byte("abcd"),
	})
	events(worker.Event{
		Task: worker.TaskRef{ID: "b-5-0", Type: "test"}, Kind: worker.KindFailed,
		Err: errBroken, Payload: []byte("abcde"),
	})
	events(worker.Event{
		Task: worker.TaskRef{ID: "b-6-0", Type: "else"}, Kind: worker.KindArchived,
		Err: errBroken, Payload: []byte("abcdef"),
	})
	for line, want := range map[int]bool{3: true, 4: true, 5: false, 6: false} {
		r, ended, err := store.Find(t.Context(), "b", line)
		if err != nil || ended != want {
			t.Errorf("line %d: %v, %v, %+v", line, ended, err, r)
		}
		if line == 3 && (r.Failure == nil || r.Failure.Code != record.CodeRefused) || line == 4 &&
			(r.Response == nil || r.Response.StatusCode != 429) {
			t.Errorf("line %d: %+v", line, r)
		}
	}
}

// The result of a refused call has the provider's answer, or the fields of its error in the shape of OpenAI's.
func TestAnswerOfAProvider(t *testing.T) {
	t.Parallel()
	page := &llm.Error{StatusCode: 400, RequestID: "req_1", Message: "a <page>", Type: "t", Body: []byte("a <page>")}
	for _, c := range []struct {
		err  error
		want string
	}{
		{&llm.Error{StatusCode: 400, Message: "no", Body: []byte(`{"error":{},"x":1}`)}, `{"error":{},"x":1}`},
		{tasks.Permanent(page), `{"error":{"message":"a \u003cpage\u003e","type":"t","param":null,"code":null}}`},
		{&llm.Error{StatusCode: 200, Message: "the answer is empty"}, ""},
		{&llm.Error{Err: errBroken}, ""},
		{&web.Error{Answer: web.Answer{StatusCode: 500, Body: []byte("oops")}}, "oops"},
		{&web.Error{Answer: web.Answer{StatusCode: 500}, Err: errBroken}, ""},
	} {
		r := record.Failed(requestOf(1), record.CodeFailed, c.err)
		var got string
		if r.Response != nil {
			got = string(r.Response.Body)
		}
		if got != c.want || (r.Failure == nil) != (c.want != "") {
			t.Errorf("%v: %q, %+v", c.err, got, r.Failure)
		}
	}
}
