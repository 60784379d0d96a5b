package record_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/documents/redisdocs"
	"github.com/headway-go/headway/internal/products/record"
	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/internal/text/batchref"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// A task whose payload names a request of a batch, and that the batch did not enqueue, makes no call and changes no
// result: it runs, it ends before it runs, or the batch is cancelled.
func TestForgedReferences(t *testing.T) {
	t.Parallel()
	synctest.Test(t, forgedReferences)
}

func forgedReferences(t *testing.T) {
	rec, store := newRecorder(t)
	signed := batchref.Ref{Batch: "b", Line: 1}.Signed("key")
	cases := map[string]struct {
		id  string
		ref batchref.Ref
	}{
		"no mark":                   {"b-1-0", batchref.Ref{Batch: "b", Line: 1}},
		"a later round":             {"b-1-7", batchref.Ref{Batch: "b", Line: 1, Round: 7}},
		"the mark of another round": {"b-1-7", batchref.Ref{Batch: "b", Line: 1, Round: 7, Mark: signed.Mark}},
		"the mark of another line":  {"b-2-0", batchref.Ref{Batch: "b", Line: 2, Mark: signed.Mark}},
		"a mark of its own key":     {"b-1-0", batchref.Ref{Batch: "b", Line: 1}.Signed("guessed")},
		"a mark without a key":      {"b-1-0", batchref.Ref{Batch: "b", Line: 1}.Signed("")},
		"another ID":                {"mine", signed},
		"the ID of another line":    {"b-2-0", signed},
		"no such batch":             {"c-1-0", batchref.Ref{Batch: "c", Line: 1}.Signed("key")},
		"an invalid batch":          {"/-1-0", batchref.Ref{Batch: "/", Line: 1}.Signed("key")},
		"the beginning of a batch":  {"-1-0", batchref.Ref{Line: 1}.Signed("key")},
	}
	for name, c := range cases {
		q := requestOf(1)
		q.Ref = c.ref
		a := attempt(1, 1)
		a.ID = c.id
		err := rec.Run(t.Context(), a, q, func(context.Context) (record.Answer, error) {
			t.Errorf("%s: the call was made", name)
			return record.Answer{Response: batches.Response{StatusCode: 200, Body: []byte(`{"forged":true}`)}}, nil
		})
		if !errors.Is(err, record.ErrForged) || !errors.Is(err, tasks.ErrPermanent) {
			t.Errorf("%s: %v", name, err)
		}
		for _, kind := range []worker.Kind{worker.KindArchived, worker.KindRejected} {
			ended := record.New(store, discard, func(string, []byte) (record.Request, bool) { return q, true })
			ended.Event(worker.Event{Kind: kind, Task: worker.TaskRef{ID: c.id, Type: "test"}, Err: errBroken})
			ended.Event(worker.Event{Kind: kind, Task: worker.TaskRef{ID: c.id, Type: "test"}, Err: err})
			ended.Close()
		}
	}
	for line := range 3 {
		if r, ended, err := store.Find(t.Context(), "b", line+1); err != nil || ended || len(r.Attempts) > 0 ||
			r.CustomID != "" {
			t.Errorf("line %d: %v, %v, %+v", line+1, err, ended, r)
		}
	}
}

// A batch that expired, and whose file is enqueued again, has its ID and another key. A worker that ran its requests
// before runs the new ones, and refuses the marks of the old key.
func TestABatchThatBeginsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, aBatchThatBeginsAgain)
}

func aBatchThatBeginsAgain(t *testing.T) {
	in := redisdocs.New(memredis.Start(t))
	store, documents := storeIn(t, in), in.Collection("batches")
	rec := recorderOf(t, store)
	run := func(line int, key string) error {
		q := requestOf(line)
		q.Ref = q.Ref.Signed(key)
		return rec.Run(t.Context(), attempt(line, 1), q, func(context.Context) (record.Answer, error) {
			return record.Answer{Response: batches.Response{StatusCode: 200, Body: []byte(`{}`)}}, nil
		})
	}
	if err := run(1, "key"); err != nil {
		t.Fatal(err)
	}
	found, err := documents.Get(t.Context(), []string{"b"}, false)
	if err != nil {
		t.Fatal(err)
	}
	gone, err := documents.Delete(t.Context(), "b", found["b"].Version)
	if err != nil || !gone {
		t.Fatal(gone, err)
	}
	again := batches.Batch{ID: "b", Key: "another key", Lines: 100, Requests: 100}
	if _, _, err = store.Open(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	rec.Idle("b", time.Hour)
	if err = run(3, "key"); !errors.Is(err, record.ErrForged) {
		t.Errorf("the first mark after an hour, of the key of before: %v", err)
	}
	if err = run(4, "another key"); err != nil {
		t.Errorf("the batch that began again: %v", err)
	}
	if err = run(5, "key"); !errors.Is(err, record.ErrForged) {
		t.Errorf("the key of before: %v", err)
	}
}
