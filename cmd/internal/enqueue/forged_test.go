package enqueue

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/batches"
	"github.com/headway-go/headway/internal/batchref"
	"github.com/headway-go/headway/internal/record"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/web"
)

// An archived task that only has the ID of a request gives its result no content: it says which task is in the way.
func TestArchivedTasksOfOthers(t *testing.T) {
	t.Parallel()
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
			URL: "https://api.example/", Terms: tasks.Terms{CustomID: "named", Batch: c.ref},
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
}
