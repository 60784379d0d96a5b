package deadtasks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/internal/packed"
	"github.com/headway-go/headway/worker"
)

const (
	// maxRounds bounds how often a write is sent while other writers of the same document are faster.
	maxRounds = 10
	// wholeSecond is how coarse asynq's times are.
	wholeSecond = time.Second
	// archiving is how much later than the record asynq's archive may have the task, with clocks that differ.
	archiving = time.Minute
	// printShown is how much of a print tells two tasks with one ID apart.
	printShown = 16
)

var errContended = errors.New("other writers were faster each time")

// Bury is worker.Graveyard's: one round trip, and a few where documents are there already. A payload of more than 14 MB after compression is left out, see Task.Missing.
func (s *Store) Bury(ctx context.Context, dead []worker.DeadTask) error {
	graves := make([]grave, 0, len(dead))
	var faults []error
	for _, t := range dead {
		g, err := s.graveOf(t)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		graves = append(graves, g)
	}
	for range maxRounds {
		if len(graves) == 0 {
			break
		}
		again, err := s.dig(ctx, graves)
		if err != nil {
			faults = append(faults, err)
		}
		if graves, err = s.settle(ctx, again); err != nil {
			faults = append(faults, err)
		}
	}
	if len(graves) > 0 {
		faults = append(faults, unavailable("bury task "+graves[0].id, errContended))
	}
	return errors.Join(faults...)
}

// grave is one dead task on its way into its document.
type grave struct {
	id     string
	print  string
	since  time.Time // a requeue after that is not undone; zero where any is
	update bson.D
}

func (s *Store) graveOf(t worker.DeadTask) (grave, error) {
	g := grave{id: key(t.Queue, t.ID)}
	fields, err := contents(t)
	if err != nil {
		return g, err
	}
	g.print, _ = fields[0].Value.(string)
	if t.Cause == worker.CauseFound {
		g.since = t.At.Add(wholeSecond)
	}
	set := append(bson.D{
		{Key: fieldTask, Value: t.ID},
		{Key: fieldQueue, Value: t.Queue},
		{Key: fieldType, Value: valid(t.Type)},
		{Key: fieldState, Value: StateDead},
		{Key: fieldAt, Value: t.At},
		{Key: "cause", Value: t.Cause},
		{Key: fieldError, Value: cut(t.Last.Error)},
		{Key: fieldLast, Value: t.Last.Number},
	}, fields...)
	unset := bson.D{{Key: fieldToken, Value: ""}, {Key: fieldChanged, Value: ""}}
	if batchOf(t) != "" { // its result has the request, and is what is sent again
		set = append(set, bson.E{Key: fieldExpires, Value: s.expiry()})
	} else {
		unset = append(unset, bson.E{Key: fieldExpires, Value: ""})
	}
	g.update = bson.D{{Key: "$set", Value: set}, {Key: "$unset", Value: unset}}
	if t.Last.Number > 0 {
		g.update = append(g.update, bson.E{Key: "$addToSet", Value: bson.D{{Key: fieldTries, Value: tryOf(t.Last)}}})
	}
	return g, nil
}

func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// open matches the documents that the grave may go into: not one of another task that is dead, nor one of a task that was requeued since.
func (g grave) open() bson.D {
	filter := bson.D{{Key: "_id", Value: g.id}, {Key: "$or", Value: bson.A{
		bson.D{{Key: fieldPrint, Value: g.print}}, bson.D{{Key: fieldState, Value: bson.D{{Key: "$nin", Value: bson.A{StateDead, StateRequeueing}}}}},
	}}}
	if !g.since.IsZero() {
		filter = append(filter, bson.E{Key: fieldChanged, Value: bson.D{{Key: "$not", Value: bson.D{{Key: "$gt", Value: g.since}}}}})
	}
	return filter
}

// dig writes them all and returns those that met a document they may not go into, or another writer. One that fails does not keep the others back.
func (s *Store) dig(ctx context.Context, graves []grave) ([]grave, error) {
	models := make([]mongo.WriteModel, len(graves))
	for i, g := range graves {
		models[i] = mongo.NewUpdateOneModel().SetFilter(g.open()).SetUpdate(g.update).SetUpsert(true)
	}
	_, err := s.records.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
	if err == nil {
		return nil, nil
	}
	bulk, ok := errors.AsType[mongo.BulkWriteException](err)
	if !ok && packed.TooLarge(err) && len(graves) > 1 { // one of them is: each alone tells which
		var again []grave
		var faults []error
		for _, g := range graves {
			one, fault := s.dig(ctx, []grave{g})
			again, faults = append(again, one...), append(faults, fault)
		}
		return again, errors.Join(faults...)
	}
	if !ok || bulk.WriteConcernError != nil {
		return nil, unavailable("bury tasks", err)
	}
	var again []grave
	var faults []error
	for _, e := range bulk.WriteErrors {
		if !met(e) {
			faults = append(faults, unavailable("bury task "+graves[e.Index].id, e))
			continue
		}
		again = append(again, graves[e.Index])
	}
	return again, errors.Join(faults...)
}

// settle looks at what they met: those that were requeued since are left out, and those whose place another task has get one beside it.
func (s *Store) settle(ctx context.Context, graves []grave) ([]grave, error) {
	if len(graves) == 0 {
		return nil, nil
	}
	ids := make(bson.A, len(graves))
	for i, g := range graves {
		ids[i] = g.id
	}
	there := map[string]marks{}
	malformed, err := s.marks(ctx, ids, func(m marks) { there[m.ID] = m })
	if err != nil {
		return nil, err
	}
	var again []grave
	for _, g := range graves {
		m := there[g.id]
		switch {
		case malformed[g.id] != nil:
			continue
		case !g.since.IsZero() && m.Changed.After(g.since):
			continue
		case m.Print != "" && m.Print != g.print && (m.State == StateDead || m.State == StateRequeueing) && !strings.Contains(g.id, "#"+g.print[:printShown]):
			g.id += "#" + g.print[:printShown]
		}
		again = append(again, g)
	}
	return again, joined(malformed)
}

// joined are the faults of records, each as one that no repetition mends.
func joined(malformed map[string]error) error {
	faults := make([]error, 0, len(malformed))
	for _, id := range slices.Sorted(maps.Keys(malformed)) {
		faults = append(faults, fmt.Errorf("%w: record %q: %w: %w", ErrMalformed, id, worker.ErrNotKept, malformed[id]))
	}
	return errors.Join(faults...)
}

// marks are what tells how a record stands.
type marks struct {
	ID      string    `bson:"_id"`
	State   State     `bson:"state"`
	At      time.Time `bson:"at"`
	Print   string    `bson:"print"`
	Changed time.Time `bson:"changed"`
}

// marks yields how the records with these keys stand. Those that can't be read are malformed, by their keys.
func (s *Store) marks(ctx context.Context, ids bson.A, yield func(marks)) (malformed map[string]error, err error) {
	shown := bson.D{{Key: fieldState, Value: 1}, {Key: fieldAt, Value: 1}, {Key: fieldPrint, Value: 1}, {Key: fieldChanged, Value: 1}}
	cursor, err := s.records.Find(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}, options.Find().SetProjection(shown))
	if err != nil {
		return nil, unavailable("look for records", err)
	}
	defer func() { _ = cursor.Close(context.WithoutCancel(ctx)) }()
	malformed = map[string]error{}
	for cursor.Next(ctx) {
		var m marks
		if err := cursor.Decode(&m); err != nil {
			id, _ := cursor.Current.Lookup("_id").StringValueOK()
			malformed[id] = err
			continue
		}
		yield(m)
	}
	if err := cursor.Err(); err != nil {
		return nil, unavailable("look for records", err)
	}
	return malformed, nil
}

// Unknown is worker.Graveyard's: one round trip.
func (s *Store) Unknown(ctx context.Context, archived []worker.Archived) ([]worker.Archived, error) {
	ids := make(bson.A, len(archived))
	for i, a := range archived {
		ids[i] = key(a.Queue, a.ID)
	}
	there := map[string]marks{}
	malformed, err := s.marks(ctx, ids, func(m marks) { there[m.ID] = m })
	if err != nil {
		return nil, err
	}
	var unknown []worker.Archived
	for _, a := range archived {
		if malformed[key(a.Queue, a.ID)] == nil && !there[key(a.Queue, a.ID)].knows(a) {
			unknown = append(unknown, a)
		}
	}
	return unknown, joined(malformed)
}

// knows says whether the record has the end of a task that was archived.
func (m marks) knows(a worker.Archived) bool {
	switch m.State {
	case StateDead, StateRequeueing:
		return !m.At.Add(archiving).Before(a.At)
	case StateRequeued, StateRecovered:
		return m.Changed.After(a.At.Add(wholeSecond))
	case StateFailing:
	}
	return false
}
