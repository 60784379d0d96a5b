package enqueue

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/products/record"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/text/batchref"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/web"
)

// An archived task that only has the ID of a request gives its result no content: it says which task is in the way.
func TestArchivedTasksOfOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newWorld(t).store(t)
		b, _, err := store.Open(t.Context(), batches.Batch{ID: "b", Lines: 9, Requests: 9})
		if err != nil {
			t.Fatal(err)
		}
		of := func(line int) batchref.Ref { return batchref.Ref{Batch: "b", Line: line} }
		for line, c := range []struct {
			name   string
			ref    *batchref.Ref
			forged bool
		}{
			{"the request itself", new(of(1).Signed(b.Key)), false},
			{"no reference", nil, true},
			{"no mark", new(of(3)), true},
			{"another line", new(of(1).Signed(b.Key)), true},
			{"another key", new(of(5).Signed(batchref.NewKey())), true},
		} {
			line++
			payload, err := json.Marshal(web.Request{
				URL: "https://api.example/", Terms: tasks.Terms{CustomID: "named", Batch: (*tasks.BatchRef)(c.ref)},
			})
			if err != nil {
				t.Fatal(err)
			}
			infos := []*asynq.TaskInfo{{ID: of(line).TaskID(), Type: web.TaskType, Payload: payload, LastErr: "oops"}}
			if err = keepDead(t.Context(), store, b, infos); err != nil {
				t.Fatal(err)
			}
			r, ended, err := store.Find(t.Context(), "b", line)
			if err != nil || !ended || r.Failure == nil || (r.CustomID == "") != c.forged || (len(r.Request) == 0) != c.forged ||
				strings.Contains(r.Failure.Message, record.ErrForged.Error()) != c.forged {
				t.Errorf("%s: %v, %v, %+v", c.name, err, ended, r)
			}
		}
	})
}

// A task that has the ID of a request's next round, and is archived as forged, does not keep the request without a
// result: it fails in that round, and can be sent again.
func TestTheNextRoundIsTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		upstream := &refusing{next: w.judge}
		upstream.on.Store(true)
		w.work(t, upstream)
		in := write(t, "in.jsonl", chatLine("bad", "never works"))
		id := batchOf(t, w.call(t, "batch", in, "--limit", "openai", "--wait"))
		client := asynq.NewClientFromRedisClient(w.redis.Client)
		ref := batchref.Ref{Batch: id, Line: 1, Round: 1}
		payload, err := json.Marshal(web.Request{
			URL: "https://api.example/", Terms: tasks.Terms{Batch: (*tasks.BatchRef)(&ref)},
		})
		if err == nil {
			_, err = client.Enqueue(asynq.NewTask(web.TaskType, payload), asynq.TaskID(ref.TaskID()))
		}
		if err != nil {
			t.Fatal(err)
		}
		w.until(t, func(q *asynq.QueueInfo) bool { return q.Archived == 2 })
		upstream.on.Store(false)
		if c := w.call(t, "retry", id, "--failed"); c.code != cli.ExitOK {
			t.Fatalf("exit %d: %s%s", c.code, c.out, c.err)
		}
		if c := w.call(t, "status", id, "--failed"); !strings.Contains(c.out, record.ErrForged.Error()[:40]) {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		if c := w.call(t, "retry", id, "--failed"); c.code != cli.ExitOK || !strings.Contains(c.out, "1 failed request is") {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		store := w.store(t)
		w.until(t, func(*asynq.QueueInfo) bool {
			r, ended, err := store.Find(t.Context(), id, 1)
			return err == nil && ended && !r.Failed() && r.CustomID == "bad" && r.Round == 2
		})
	})
}
