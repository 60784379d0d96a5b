package deadtasks

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/worker"
)

// Failed is worker.Graveyard's: one round trip for most. A first attempt begins the record anew, unless the task was dead before. An attempt of a worker that had lost
// the task, told after its end, does not make it alive.
func (s *Store) Failed(ctx context.Context, task worker.TaskRef, attempt worker.FailedAttempt) error {
	id, one := key(task.Queue, task.ID), tryOf(attempt)
	set := bson.D{
		{Key: fieldTask, Value: task.ID},
		{Key: fieldQueue, Value: task.Queue},
		{Key: fieldType, Value: valid(task.Type)},
		{Key: fieldState, Value: StateFailing},
		{Key: fieldAt, Value: one.At},
		{Key: fieldError, Value: one.Error},
		{Key: fieldExpires, Value: s.expiry()},
	}
	if attempt.Number == 1 {
		fresh := bson.D{{Key: "_id", Value: id}, {Key: fieldState, Value: bson.D{{Key: "$in", Value: bson.A{StateFailing, StateRecovered}}}}, {Key: fieldPrint, Value: bson.D{{Key: "$exists", Value: false}}}}
		if written, err := s.note(ctx, fresh, bson.D{{Key: "$set", Value: append(set, bson.E{Key: fieldTries, Value: []try{one}})}}); written || err != nil {
			return err
		}
	}
	push := bson.E{Key: "$push", Value: bson.D{{Key: fieldTries, Value: bson.D{{Key: "$each", Value: []try{one}}, {Key: "$slice", Value: -maxTries}}}}}
	untold := bson.E{Key: fieldTries, Value: bson.D{{Key: "$not", Value: bson.D{{Key: "$elemMatch", Value: bson.D{{Key: "n", Value: one.Number}, {Key: "at", Value: one.At}}}}}}}
	alive := bson.E{Key: "$or", Value: bson.A{
		bson.D{{Key: fieldState, Value: bson.D{{Key: "$ne", Value: StateDead}}}}, bson.D{{Key: fieldLast, Value: bson.D{{Key: "$lt", Value: one.Number}}}},
	}}
	if written, err := s.note(ctx, bson.D{{Key: "_id", Value: id}, untold, alive}, bson.D{{Key: "$set", Value: set}, push}); written || err != nil {
		return err
	}
	if _, err := s.records.UpdateOne(ctx, bson.D{{Key: "_id", Value: id}, untold}, bson.D{push}); err != nil {
		return unavailable("note an attempt of task "+id, err)
	}
	return nil
}

// note updates or inserts. It has not written where there is a document that does not match.
func (s *Store) note(ctx context.Context, filter, update bson.D) (written bool, err error) {
	_, err = s.records.UpdateOne(ctx, filter, update, options.UpdateOne().SetUpsert(true))
	switch {
	case err == nil:
		return true, nil
	case met(err):
		return false, nil
	default:
		return false, unavailable("note an attempt", err)
	}
}

// Recovered is worker.Graveyard's: one round trip. What failed stays readable for the retention.
func (s *Store) Recovered(ctx context.Context, task worker.TaskRef) error {
	filter := bson.D{{Key: "_id", Value: key(task.Queue, task.ID)}, {Key: fieldState, Value: bson.D{{Key: "$in", Value: bson.A{StateFailing, StateDead}}}}}
	update := bson.D{{Key: "$set", Value: bson.D{{Key: fieldState, Value: StateRecovered}, {Key: fieldChanged, Value: s.now()}, {Key: fieldExpires, Value: s.expiry()}}}}
	if _, err := s.records.UpdateOne(ctx, filter, update); err != nil {
		return unavailable("note that task "+task.ID+" went well", err)
	}
	return nil
}
