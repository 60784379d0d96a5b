package deadtasks

import (
	"context"
	"maps"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/internal/deadletter"
	"github.com/headway-go/headway/internal/mongoerr"
)

// recorder implements deadletter.Store.
type recorder struct{ *Store }

// Recorder returns what packages worker and cmd write records with. Programs need not call it.
func (s *Store) Recorder() deadletter.Store { return recorder{s} }

// Failed usually takes one round trip. A first attempt replaces the record, unless the task was dead before. An attempt
// that a worker reports after the end of the task does not change the state.
func (s recorder) Failed(ctx context.Context, task deadletter.Ref, attempt deadletter.Attempt) error {
	id, one := key(task.Queue, task.ID), tryOf(attempt)
	set := bson.M{
		fieldTask: task.ID, fieldQueue: task.Queue, fieldType: valid(task.Type), fieldState: StateFailing,
		fieldAt: one.At, fieldError: one.Error, fieldExpires: s.expiry(),
	}
	if attempt.Number == 1 {
		first := maps.Clone(set)
		first[fieldTries] = []try{one}
		fresh := bson.M{
			"_id": id, fieldState: bson.M{"$in": bson.A{
				StateFailing,
				StateRecovered,
			}}, fieldPrint: bson.M{"$exists": false},
		}
		if written, err := s.note(ctx, fresh, bson.M{"$set": first}); written || err != nil {
			return err
		}
	}
	push := bson.M{fieldTries: bson.M{"$each": []try{one}, "$slice": -maxTries}}
	missing := bson.M{"$not": bson.M{"$elemMatch": bson.M{"n": one.Number, "at": one.At}}}
	alive := bson.A{bson.M{fieldState: bson.M{"$ne": StateDead}}, bson.M{fieldLast: bson.M{"$lt": one.Number}}}
	filter := bson.M{"_id": id, fieldTries: missing, "$or": alive}
	if written, err := s.note(ctx, filter, bson.M{"$set": set, "$push": push}); written || err != nil {
		return err
	}
	if _, err := s.records.UpdateOne(ctx, bson.M{"_id": id, fieldTries: missing}, bson.M{"$push": push}); err != nil {
		return unavailable("store an attempt of task "+id, err)
	}
	return nil
}

// note updates or inserts a record. It writes nothing if the document exists and does not match the filter.
func (s *Store) note(ctx context.Context, filter, update bson.M) (written bool, err error) {
	_, err = s.records.UpdateOne(ctx, filter, update, options.UpdateOne().SetUpsert(true))
	switch {
	case err == nil:
		return true, nil
	case mongoerr.Conflict(err):
		return false, nil
	default:
		return false, unavailable("store an attempt", err)
	}
}

// SentAgain takes one round trip. The records stay readable for the retention.
func (s recorder) SentAgain(ctx context.Context, queue string, ids []string) error {
	keys := make(bson.A, len(ids))
	for i, id := range ids {
		keys[i] = key(queue, id)
	}
	now := time.Now()
	filter := bson.M{"_id": bson.M{"$in": keys}, fieldState: bson.M{"$in": bson.A{StateFailing, StateDead}}}
	update := bson.M{
		"$set":  bson.M{fieldState: StateRequeued, fieldChanged: now, fieldExpires: s.expiry()},
		"$push": bson.M{"requeues": now},
	}
	if _, err := s.records.UpdateMany(ctx, filter, update); err != nil {
		return unavailable("store which tasks were sent again", err)
	}
	return nil
}

// Recovered takes one round trip. The failed attempts stay readable for the retention.
func (s recorder) Recovered(ctx context.Context, task deadletter.Ref) error {
	filter := bson.M{"_id": key(task.Queue, task.ID), fieldState: bson.M{"$in": bson.A{StateFailing, StateDead}}}
	update := bson.M{"$set": bson.M{fieldState: StateRecovered, fieldChanged: time.Now(), fieldExpires: s.expiry()}}
	if _, err := s.records.UpdateOne(ctx, filter, update); err != nil {
		return unavailable("store that task "+task.ID+" succeeded", err)
	}
	return nil
}
