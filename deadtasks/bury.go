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

	"github.com/headway-go/headway/internal/graveyard"
	"github.com/headway-go/headway/internal/mongoerr"
)

const (
	// maxRounds bounds how often a write is sent again after other writers changed the same document.
	maxRounds = 10
	// wholeSecond is how coarse asynq's times are.
	wholeSecond = time.Second
	// archiving is by how much asynq's archive may have the task later than the record, where clocks differ.
	archiving = time.Minute
	// printShown is how many characters of a print distinguish two tasks with one ID.
	printShown = 16
)

var errContended = errors.New("another writer changed the document each time")

// Bury is for package worker. It takes one round trip, and a few more if documents exist already. A payload of
// more than 14 MB after compression is left out: see Task.Missing.
func (s *Store) Bury(ctx context.Context, dead []graveyard.Task) error {
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
	since  time.Time // a later requeue stays; zero: none does
	update bson.M
}

func (s *Store) graveOf(t graveyard.Task) (grave, error) {
	set, err := contents(t)
	if err != nil {
		return grave{}, err
	}
	g := grave{id: key(t.Queue, t.ID), print: set[fieldPrint].(string)}
	if t.Cause == graveyard.CauseFound {
		g.since = t.At.Add(wholeSecond)
	}
	maps.Copy(set, bson.M{
		fieldTask: t.ID, fieldQueue: t.Queue, fieldType: valid(t.Type), fieldState: StateDead, fieldAt: t.At,
		"cause": t.Cause, fieldError: cut(t.Last.Error), fieldLast: t.Last.Number,
	})
	unset := bson.M{fieldToken: "", fieldChanged: ""}
	if batchOf(t) != "" { // the batch stores the request, and sends it again
		set[fieldExpires] = s.expiry()
	} else {
		unset[fieldExpires] = ""
	}
	g.update = bson.M{"$set": set, "$unset": unset}
	if t.Last.Number > 0 {
		g.update["$addToSet"] = bson.M{fieldTries: tryOf(t.Last)}
	}
	return g, nil
}

func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// open matches the documents that the grave may replace: not the document of another dead task, nor of a task that
// was requeued since.
func (g grave) open() bson.M {
	filter := bson.M{"_id": g.id, "$or": bson.A{
		bson.M{fieldPrint: g.print}, bson.M{fieldState: bson.M{"$nin": bson.A{StateDead, StateRequeueing}}},
	}}
	if !g.since.IsZero() {
		filter[fieldChanged] = bson.M{"$not": bson.M{"$gt": g.since}}
	}
	return filter
}

// dig writes the graves. It returns the graves that met another writer, or a document that they may not replace. A
// grave that fails does not stop the others.
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
	if !ok && mongoerr.TooLarge(err) && len(graves) > 1 { // write each alone, to find the one that is too large
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
		if !mongoerr.Conflict(e) {
			faults = append(faults, unavailable("bury task "+graves[e.Index].id, e))
			continue
		}
		again = append(again, graves[e.Index])
	}
	return again, errors.Join(faults...)
}

// settle reads the documents that the graves met. It drops graves of tasks that were requeued since. If the document
// belongs to another task, the grave gets a document of its own.
func (s *Store) settle(ctx context.Context, graves []grave) ([]grave, error) {
	if len(graves) == 0 {
		return nil, nil
	}
	ids := make(bson.A, len(graves))
	for i, g := range graves {
		ids[i] = g.id
	}
	found, malformed, err := s.marks(ctx, ids)
	if err != nil {
		return nil, err
	}
	var again []grave
	for _, g := range graves {
		m := found[g.id]
		if malformed[g.id] != nil || !g.since.IsZero() && m.Changed.After(g.since) {
			continue
		}
		beside := "#" + g.print[:printShown]
		other := m.Print != "" && m.Print != g.print && (m.State == StateDead || m.State == StateRequeueing)
		if other && !strings.Contains(g.id, beside) {
			g.id += beside
		}
		again = append(again, g)
	}
	return again, joined(malformed)
}

// joined returns the faults of records. A retry cannot succeed.
func joined(malformed map[string]error) error {
	faults := make([]error, 0, len(malformed))
	for _, id := range slices.Sorted(maps.Keys(malformed)) {
		faults = append(faults, fmt.Errorf("%w: record %q: %w: %w", ErrMalformed, id, graveyard.ErrNotKept, malformed[id]))
	}
	return errors.Join(faults...)
}

// marks are the fields of a record that show how its task ended.
type marks struct {
	State   State     `bson:"state"`
	At      time.Time `bson:"at"`
	Print   string    `bson:"print"`
	Changed time.Time `bson:"changed"`
}

// marks returns the marks of the records with these keys, and the faults of unreadable records, by key.
func (s *Store) marks(ctx context.Context, ids bson.A) (found map[string]marks, malformed map[string]error, err error) {
	shown := bson.M{fieldState: 1, fieldAt: 1, fieldPrint: 1, fieldChanged: 1}
	cursor, err := s.records.Find(ctx, bson.M{"_id": bson.M{"$in": ids}}, options.Find().SetProjection(shown))
	var raw []bson.Raw
	if err == nil {
		err = cursor.All(ctx, &raw)
	}
	if err != nil {
		return nil, nil, unavailable("look for records", err)
	}
	found, malformed = map[string]marks{}, map[string]error{}
	for _, r := range raw {
		id, _ := r.Lookup("_id").StringValueOK()
		var m marks
		if err := bson.Unmarshal(r, &m); err != nil {
			malformed[id] = err
			continue
		}
		found[id] = m
	}
	return found, malformed, nil
}

// Unknown is for package worker: one round trip.
func (s *Store) Unknown(ctx context.Context, archived []graveyard.Archived) ([]graveyard.Archived, error) {
	ids := make(bson.A, len(archived))
	for i, a := range archived {
		ids[i] = key(a.Queue, a.ID)
	}
	found, malformed, err := s.marks(ctx, ids)
	if err != nil {
		return nil, err
	}
	var unknown []graveyard.Archived
	for _, a := range archived {
		if malformed[key(a.Queue, a.ID)] == nil && !found[key(a.Queue, a.ID)].knows(a) {
			unknown = append(unknown, a)
		}
	}
	return unknown, joined(malformed)
}

// knows returns whether the record contains the end of an archived task.
func (m marks) knows(a graveyard.Archived) bool {
	switch m.State {
	case StateDead, StateRequeueing:
		return !m.At.Add(archiving).Before(a.At)
	case StateRequeued, StateRecovered:
		return m.Changed.After(a.At.Add(wholeSecond))
	case StateFailing:
	}
	return false
}
