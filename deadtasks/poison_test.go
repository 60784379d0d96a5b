package deadtasks_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/testenv"
	"github.com/headway-go/headway/worker"
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
	archived := func(d worker.DeadTask) worker.Archived {
		return worker.Archived{ID: d.ID, Queue: d.Queue, At: d.At.Add(time.Second)}
	}
	unknown, err := s.Unknown(t.Context(), []worker.Archived{archived(poison), archived(good)})
	if !errors.Is(err, deadtasks.ErrMalformed) || len(unknown) != 1 || unknown[0].ID != good.ID {
		t.Errorf("unknown %+v, %v", unknown, err)
	}
	err = s.Bury(t.Context(), []worker.DeadTask{poison, large, good})
	if !errors.Is(err, deadtasks.ErrTooLarge) || !errors.Is(err, worker.ErrNotKept) ||
		errors.Is(err, deadtasks.ErrUnavailable) {
		t.Errorf("bury: %.500v", err)
	}
	if got := only(t, s, good.ID); got.State != deadtasks.StateDead {
		t.Errorf("the good one: %+v", got)
	}
}
