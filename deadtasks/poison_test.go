package deadtasks_test

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/fleet/deadletter"
	"github.com/headway-go/headway/internal/line/asynqdb"
)

// An unreadable record and a task that is too large for a record do not stop the other tasks. The error asks for no
// retry.
func TestPoisonKeepsNothingBack(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		t.Helper()
		db := newDocuments(t)
		s := deadtasks.New(db, deadtasks.Options{})
		poison := died(1)
		change(t, db, poison.ID+"/default", func(head bson.M, _ *documents.Document) {
			head["state"], head["at"] = 5, "never"
		})
		large := died(2)
		large.Type = strings.Repeat("x", 17<<20)
		good := died(3)
		archived := func(d deadletter.Task) asynqdb.Archived {
			return asynqdb.Archived{ID: d.ID, Queue: d.Queue, At: d.At.Add(time.Second)}
		}
		unknown, err := s.Recorder().Unknown(t.Context(), []asynqdb.Archived{archived(poison), archived(good)})
		if !errors.Is(err, deadtasks.ErrMalformed) || len(unknown) != 1 || unknown[0].ID != good.ID {
			t.Errorf("unknown %+v, %v", unknown, err)
		}
		err = s.Recorder().Record(t.Context(), []deadletter.Task{poison, large, good})
		if !errors.Is(err, deadtasks.ErrTooLarge) || !errors.Is(err, deadletter.ErrNotKept) ||
			errors.Is(err, deadtasks.ErrUnavailable) {
			t.Errorf("record: %.500v", err)
		}
		if got := only(t, s, good.ID); got.State != deadtasks.StateDead {
			t.Errorf("the good one: %+v", got)
		}
	})
}

// A record that can't be read, wherever it stands, and a task that can't be enqueued keep no other one in the records.
func TestPoisonIsPassedOver(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		t.Helper()
		db, q := newDocuments(t), newQueue(t)
		s := deadtasks.New(db, deadtasks.Options{})
		var good []deadletter.Task
		for n := range 250 { // more than a page
			good = append(good, died(n))
		}
		record(t, s, good...)
		nameless, missing := died(100), died(120)
		nameless.ID, missing.ID = "", "missing"
		record(t, s, nameless, missing)
		change(t, db, "missing/default", func(head bson.M, d *documents.Document) {
			head["missing"], d.Body = 5, documents.Empty
		})
		first, last := died(-1).At, died(1000).At
		for i, p := range []struct {
			at         time.Time
			head, body bson.M
		}{
			{at: died(3).At, head: bson.M{"at": "never"}},
			{at: died(5).At, head: bson.M{"tries": "x"}},
			{at: first, head: bson.M{"tries": "x"}},
			{at: died(130).At, body: bson.M{"payload": 5}},
			{at: last, body: bson.M{"headers": "x"}},
			{at: died(5).At, head: bson.M{"requeues": 5}},
			{at: died(200).At, head: bson.M{"task": bson.A{}}},
		} {
			change(t, db, fmt.Sprintf("poison%d/default", i), func(head bson.M, d *documents.Document) {
				head["state"], head["at"] = deadtasks.StateDead, p.at
				maps.Copy(head, p.head)
				d.Group, d.At = string(deadtasks.StateDead), p.at
				if p.body != nil {
					var err error
					if d.Body, err = bson.Marshal(p.body); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for name, all := range map[string]iter.Seq2[deadtasks.Task, error]{
			"list": s.List(t.Context(), deadtasks.Filter{}), "whole": s.List(t.Context(), deadtasks.Filter{Payloads: true}),
		} {
			read, faults := 0, 0
			for _, err := range all {
				if read++; err != nil {
					faults++
					if !errors.Is(err, deadtasks.ErrMalformed) || len(err.Error()) > 500 {
						t.Errorf("%s: %v", name, err)
					}
				}
			}
			if read != 259 || faults < 5 {
				t.Errorf("%s: %d records and %d faults", name, read, faults)
			}
		}
		r, err := s.Requeue(t.Context(), q.client, deadtasks.Filter{}, nil)
		if !errors.Is(err, deadtasks.ErrMalformed) || !errors.Is(err, deadtasks.ErrNoPayload) || r.Requeued != 250 {
			t.Errorf("%+v, %.1000v", r, err)
		}
		for _, id := range []string{"task-0", "task-100", "task-249"} {
			if q.state(t, id) != asynq.TaskStatePending {
				t.Errorf("%s was not requeued", id)
			}
		}
	})
}
