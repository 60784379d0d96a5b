package deadtasks

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/mongoerr"
)

// Filter chooses records. The zero value chooses dead tasks and tasks whose requeue was interrupted.
type Filter struct {
	// ID is the ID of a task. Several queues may have a task with this ID.
	ID string
	// Queue, Type and Batch match exactly. Batch is the ID of a batch. Error matches a part of the last error.
	Queue, Type, Batch, Error string
	// Since and Until bound the time at which the task ended: at or after Since, and before Until.
	Since, Until time.Time
	// States are the states to look for; nil means StateDead and StateRequeueing.
	States []State
	// AnyState chooses records in all states.
	AnyState bool
	// Newest makes List begin with the task that ended last.
	Newest bool
	// Payloads makes List read payloads and headers too.
	Payloads bool
}

func (f Filter) query() bson.M {
	states := f.States
	if states == nil {
		states = []State{StateDead, StateRequeueing}
	}
	if f.AnyState {
		states = []State{StateFailing, StateDead, StateRequeueing, StateRequeued, StateRecovered}
	}
	q := bson.M{fieldState: bson.M{"$in": states}}
	for field, value := range map[string]string{
		fieldTask: f.ID, fieldQueue: f.Queue, fieldType: f.Type, fieldBatch: f.Batch,
	} {
		if value != "" {
			q[field] = value
		}
	}
	if f.Error != "" {
		q[fieldError] = bson.M{"$regex": regexp.QuoteMeta(f.Error)}
	}
	between := bson.M{}
	if !f.Since.IsZero() {
		between["$gte"] = f.Since
	}
	if !f.Until.IsZero() {
		between["$lt"] = f.Until
	}
	if len(between) > 0 {
		q[fieldAt] = between
	}
	return q
}

// List yields the records in the order in which the tasks ended, or in reverse with Filter.Newest. It reads page by
// page, so it may miss later changes. An error that matches ErrMalformed is of one record, and other records follow.
// Any other error is the last value.
func (s *Store) List(ctx context.Context, f Filter) iter.Seq2[Task, error] {
	shown := bson.M{}
	if !f.Payloads {
		shown = bson.M{fieldPayload: 0, fieldHeaders: 0}
	}
	query, order, after := f.query(), 1, "$gt"
	if f.Newest {
		order, after = -1, "$lt"
	}
	sorted := bson.D{{Key: fieldAt, Value: order}, {Key: "_id", Value: order}}
	return func(yield func(Task, error) bool) {
		var last bson.Raw
		next := func() any { return behind(query, last, after) }
		for raw, err := range mongoerr.Pages(ctx, s.records, sorted, shown, next) {
			if err != nil {
				yield(Task{}, unavailable("read dead tasks", err))
				return
			}
			if last = slices.Clone(raw); !yield(decoded(last)) {
				return
			}
		}
	}
}

// Count returns the number of matching records.
func (s *Store) Count(ctx context.Context, f Filter) (int, error) {
	n, err := s.records.CountDocuments(ctx, f.query())
	if err != nil {
		return 0, unavailable("count dead tasks", err)
	}
	return int(n), nil
}

// behind matches the records of a query that follow last, or all if last is nil. After is $gt, or $lt for the newest
// first. A record without a time is before all others.
func behind(query bson.M, last bson.Raw, after string) bson.M {
	if last == nil {
		return query
	}
	q := maps.Clone(query)
	if at, id := last.Lookup(fieldAt), last.Lookup("_id"); at.Type == bson.TypeDateTime {
		q["$or"] = bson.A{bson.M{fieldAt: bson.M{after: at}}, bson.M{fieldAt: at, "_id": bson.M{after: id}}}
	} else {
		q["$or"] = bson.A{bson.M{fieldAt: bson.M{after + "e": time.Time{}}}}
	}
	return q
}

// decoded reads a record. The error matches ErrMalformed.
func decoded(raw bson.Raw) (Task, error) {
	var d document
	if err := bson.Unmarshal(raw, &d); err != nil {
		return Task{}, fmt.Errorf("%w: record %.200s: %w", ErrMalformed, raw.Lookup("_id"), err)
	}
	return d.task()
}
