package deadtasks

import (
	"context"
	"fmt"
	"iter"
	"regexp"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Filter chooses records. The zero value chooses dead tasks and tasks whose requeue was interrupted.
type Filter struct {
	// ID is the ID of a task. Several queues may have a task with this ID.
	ID string
	// Queue and Type match exactly. Error matches a part of the last error.
	Queue, Type, Error string
	// Since and Until bound the time at which the task ended: at or after Since, and before Until.
	Since, Until time.Time
	// States are the states to look for; nil means StateDead and StateRequeueing.
	States []State
}

// EveryState returns all states, for Filter.States.
func EveryState() []State {
	return []State{StateFailing, StateDead, StateRequeueing, StateRequeued, StateRecovered}
}

func (f Filter) query() bson.M {
	states := f.States
	if states == nil {
		states = []State{StateDead, StateRequeueing}
	}
	q := bson.M{fieldState: bson.M{"$in": states}}
	for field, value := range map[string]string{fieldTask: f.ID, fieldQueue: f.Queue, fieldType: f.Type} {
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

// List yields the records without payloads and headers, in the order in which the tasks ended. It reads page by page,
// so it may miss later changes. An error is the last value.
func (s *Store) List(ctx context.Context, f Filter) iter.Seq2[Task, error] {
	return s.stream(ctx, f, bson.M{fieldPayload: 0, fieldHeaders: 0})
}

// Whole is like List, with payloads and headers.
func (s *Store) Whole(ctx context.Context, f Filter) iter.Seq2[Task, error] {
	return s.stream(ctx, f, bson.M{})
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
		query := f.query()
		for {
			last, n, err := s.page(ctx, query, shown, func(t Task) bool { return yield(t, nil) })
			if err != nil {
				yield(Task{}, err)
				return
			}
			if n < page {
				return
			}
			query["$or"] = bson.A{
				bson.M{fieldAt: bson.M{"$gt": last.At}}, bson.M{fieldAt: last.At, "_id": bson.M{"$gt": last.key}},
			}
		}
	}
}

// page yields a page of records. It returns the last record and their number, or zero if yield returned false. The
// server keeps no cursor open between two pages.
func (s *Store) page(ctx context.Context, query, shown bson.M, yield func(Task) bool) (last Task, n int, err error) {
	o := options.Find().SetSort(bson.D{
		{Key: fieldAt, Value: 1},
		{Key: "_id", Value: 1},
	}).SetLimit(page).SetBatchSize(page)
	cursor, err := s.records.Find(ctx, query, o.SetProjection(shown))
	if err != nil {
		return last, 0, unavailable("read dead tasks", err)
	}
	defer func() { _ = cursor.Close(context.WithoutCancel(ctx)) }()
	for cursor.Next(ctx) {
		var d document
		if err = cursor.Decode(&d); err != nil {
			return last, 0, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		if last, err = d.task(); err != nil {
			return last, 0, err
		}
		if n++; !yield(last) {
			return last, 0, nil
		}
	}
	if err := cursor.Err(); err != nil {
		return last, 0, unavailable("read dead tasks", err)
	}
	return last, n, nil
}
