package deadtasks_test

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/asynqdb"
	"github.com/headway-go/headway/internal/deadletter"
	"github.com/headway-go/headway/internal/testenv"
)

// An unreadable record and a task that is too large for a record do not stop the other tasks. The error asks for no
// retry.
func TestPoisonKeepsNothingBack(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	s := deadtasks.New(db, deadtasks.Options{})
	poison := died(1)
	corrupt := bson.D{
		{Key: "_id", Value: "default/" + poison.ID},
		{Key: "state", Value: 5},
		{Key: "at", Value: "never"},
	}
	if _, err := db.Collection("headway_dead").InsertOne(t.Context(), corrupt); err != nil {
		t.Fatal(err)
	}
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
}

// A record that can't be read, wherever it stands, and a task that can't be enqueued keep no other one in the records.
func TestPoisonIsPassedOver(t *testing.T) {
	t.Parallel()
	db, q := testenv.Database(t), newQueue(t)
	s := deadtasks.New(db, deadtasks.Options{})
	var good []deadletter.Task
	for n := range 250 { // more than a page
		good = append(good, died(n))
	}
	record(t, s, good...)
	nameless, missing := died(100), died(120)
	nameless.ID, missing.ID = "", "missing"
	record(t, s, nameless, missing)
	records := db.Collection("headway_dead")
	update := bson.M{"$unset": bson.M{"payload": ""}, "$set": bson.M{"missing": 5}}
	if _, err := records.UpdateOne(t.Context(), bson.M{"task": "missing"}, update); err != nil {
		t.Fatal(err)
	}
	first, last := died(-1).At, died(1000).At
	for i, d := range []bson.M{
		{"at": "never"},
		{"at": 5, "tries": "x"},
		{"at": first, "tries": "x"},
		{"at": died(130).At, "payload": 5},
		{"at": last, "headers": "x"},
		{"at": bson.M{}, "requeues": 5},
		{"at": died(200).At, "task": bson.A{}},
	} {
		d["_id"], d["state"] = fmt.Sprintf("poison %d", i), deadtasks.StateDead
		if _, err := records.InsertOne(t.Context(), d); err != nil {
			t.Fatal(err)
		}
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
}
