package deadtasks

import (
	"context"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
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

// page is the number of records that are read at once.
const page = 200

// List yields the records in the order in which the tasks ended, or in reverse with Filter.Newest. It reads page by
// page, so it may miss later changes. An error that matches ErrMalformed is of one record, and other records follow.
// Any other error is the last value.
func (s *Store) List(ctx context.Context, f Filter) iter.Seq2[Task, error] {
	shown := bson.M{}
	if !f.Payloads {
		shown = bson.M{fieldPayload: 0, fieldHeaders: 0}
	}
	return s.stream(ctx, f, shown)
}

// Count returns the number of matching records.
func (s *Store) Count(ctx context.Context, f Filter) (int, error) {
	n, err := s.records.CountDocuments(ctx, f.query())
	if err != nil {
		return 0, unavailable("count dead tasks", err)
	}
	return int(n), nil
}

func (s *Store) stream(ctx context.Context, f Filter, shown bson.M) iter.Seq2[Task, error] {
	return func(yield func(Task, error) bool) {
		query, order, after := f.query(), 1, "$gt"
		if f.Newest {
			order, after = -1, "$lt"
		}
		for {
			last, n, err := s.page(ctx, query, shown, order, yield)
			if err != nil {
				yield(Task{}, err)
				return
			}
			if n < page {
				return
			}
			query["$or"] = behind(last, after)
		}
	}
}

// behind matches the records that follow last. after is $gt, or $lt for the newest first. A record without a time is
// before all others.
func behind(last bson.Raw, after string) bson.A {
	at, id := last.Lookup(fieldAt), last.Lookup("_id")
	if at.Type != bson.TypeDateTime {
		return bson.A{bson.M{fieldAt: bson.M{after + "e": time.Time{}}}}
	}
	return bson.A{bson.M{fieldAt: bson.M{after: at}}, bson.M{fieldAt: at, "_id": bson.M{after: id}}}
}

// page yields a page of records. It returns the last record and their number, or zero if yield returned false. The
// server keeps no cursor open between two pages.
func (s *Store) page(
	ctx context.Context, query, shown bson.M, order int, yield func(Task, error) bool,
) (last bson.Raw, n int, err error) {
	o := options.Find().SetSort(bson.D{
		{Key: fieldAt, Value: order},
		{Key: "_id", Value: order},
	}).SetLimit(page).SetBatchSize(page)
	cursor, err := s.records.Find(ctx, query, o.SetProjection(shown))
	if err != nil {
		return last, 0, unavailable("read dead tasks", err)
	}
	defer func() { _ = cursor.Close(context.WithoutCancel(ctx)) }()
	for cursor.Next(ctx) {
		last = slices.Clone(cursor.Current)
		if n++; !yield(decoded(last)) {
			return last, 0, nil
		}
	}
	if err := cursor.Err(); err != nil {
		return last, 0, unavailable("read dead tasks", err)
	}
	return last, n, nil
}

// decoded reads a record. The error matches ErrMalformed.
func decoded(raw bson.Raw) (Task, error) {
	var d document
	if err := bson.Unmarshal(raw, &d); err != nil {
		return Task{}, fmt.Errorf("%w: record %.200s: %w", ErrMalformed, raw.Lookup("_id"), err)
	}
	return d.task()
}
