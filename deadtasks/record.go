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

	"github.com/headway-go/headway/internal/asynqdb"
	"github.com/headway-go/headway/internal/deadletter"
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

// Record takes one round trip, and a few more if documents exist already. A payload of more than 14 MB after
// compression is left out: see Task.Missing.
func (s recorder) Record(ctx context.Context, dead []deadletter.Task) error {
	entries := make([]entry, 0, len(dead))
	var faults []error
	for _, t := range dead {
		g, err := s.entryOf(t)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		entries = append(entries, g)
	}
	for range maxRounds {
		if len(entries) == 0 {
			break
		}
		again, err := s.write(ctx, entries)
		if err != nil {
			faults = append(faults, err)
		}
		if entries, err = s.settle(ctx, again); err != nil {
			faults = append(faults, err)
		}
	}
	if len(entries) > 0 {
		faults = append(faults, unavailable("record task "+entries[0].id, errContended))
	}
	return errors.Join(faults...)
}

// entry is one dead task on its way into its document.
type entry struct {
	id     string
	print  string
	since  time.Time // a later requeue stays; zero: none does
	update bson.M
}

func (s *Store) entryOf(t deadletter.Task) (entry, error) {
	set, err := contents(t)
	if err != nil {
		return entry{}, err
	}
	g := entry{id: key(t.Queue, t.ID), print: set[fieldPrint].(string)}
	if t.Cause == deadletter.CauseFound {
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

// open matches the documents that the entry may replace: not the document of another dead task, nor of a task that
// was requeued since.
func (g entry) open() bson.M {
	filter := bson.M{"_id": g.id, "$or": bson.A{
		bson.M{fieldPrint: g.print}, bson.M{fieldState: bson.M{"$nin": bson.A{StateDead, StateRequeueing}}},
	}}
	if !g.since.IsZero() {
		filter[fieldChanged] = bson.M{"$not": bson.M{"$gt": g.since}}
	}
	return filter
}

// write writes the entries. It returns the entries that met another writer, or a document that they may not replace. An
// entry that fails does not stop the others.
func (s *Store) write(ctx context.Context, entries []entry) ([]entry, error) {
	models := make([]mongo.WriteModel, len(entries))
	for i, g := range entries {
		models[i] = mongo.NewUpdateOneModel().SetFilter(g.open()).SetUpdate(g.update).SetUpsert(true)
	}
	failed, err := mongoerr.Bulk(ctx, s.records, models)
	if err != nil {
		return nil, unavailable("record tasks", err)
	}
	var again []entry
	var faults []error
	for i, g := range entries {
		switch err := failed[i]; {
		case err == nil:
		case mongoerr.Conflict(err):
			again = append(again, g)
		default:
			faults = append(faults, unavailable("record task "+g.id, err))
		}
	}
	return again, errors.Join(faults...)
}

// settle reads the documents that the entries met. It drops entries of tasks that were requeued since. If the document
// belongs to another task, the entry gets a document of its own.
func (s *Store) settle(ctx context.Context, entries []entry) ([]entry, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	ids := make(bson.A, len(entries))
	for i, g := range entries {
		ids[i] = g.id
	}
	found, malformed, err := s.marks(ctx, bson.M{"_id": bson.M{"$in": ids}})
	if err != nil {
		return nil, err
	}
	var again []entry
	for _, g := range entries {
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
		faults = append(faults, fmt.Errorf("%w: record %q: %w: %w", ErrMalformed, id, deadletter.ErrNotKept, malformed[id]))
	}
	return errors.Join(faults...)
}

// marks are the fields of a record that show how its task ended.
type marks struct {
	Task    string    `bson:"task"`
	Queue   string    `bson:"queue"`
	State   State     `bson:"state"`
	At      time.Time `bson:"at"`
	Print   string    `bson:"print"`
	Changed time.Time `bson:"changed"`
}

// marks returns the marks of the records that a query matches, and the faults of unreadable records, by key.
func (s *Store) marks(
	ctx context.Context, query bson.M,
) (found map[string]marks, malformed map[string]error, err error) {
	shown := bson.M{fieldTask: 1, fieldQueue: 1, fieldState: 1, fieldAt: 1, fieldPrint: 1, fieldChanged: 1}
	cursor, err := s.records.Find(ctx, query, options.Find().SetProjection(shown))
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

// Unknown takes one round trip. An archived task may have a key with a print, as its ID was that of another dead task.
func (s recorder) Unknown(ctx context.Context, archived []asynqdb.Archived) ([]asynqdb.Archived, error) {
	keys, ids := make(bson.A, len(archived)), make(bson.A, len(archived))
	for i, a := range archived {
		keys[i], ids[i] = key(a.Queue, a.ID), a.ID
	}
	found, malformed, err := s.marks(ctx, bson.M{"$or": bson.A{
		bson.M{"_id": bson.M{"$in": keys}}, bson.M{fieldTask: bson.M{"$in": ids}},
	}})
	if err != nil {
		return nil, err
	}
	ends := map[string][]marks{} // by the key without a print
	for _, m := range found {
		ends[key(m.Queue, m.Task)] = append(ends[key(m.Queue, m.Task)], m)
	}
	var unknown []asynqdb.Archived
	for _, a := range archived {
		at := key(a.Queue, a.ID)
		if malformed[at] == nil && !slices.ContainsFunc(ends[at], func(m marks) bool { return m.knows(a) }) {
			unknown = append(unknown, a)
		}
	}
	return unknown, joined(malformed)
}

// knows returns whether the record contains the end of an archived task.
func (m marks) knows(a asynqdb.Archived) bool {
	switch m.State {
	case StateDead, StateRequeueing:
		return !m.At.Add(archiving).Before(a.At)
	case StateRequeued, StateRecovered:
		return m.Changed.After(a.At.Add(wholeSecond))
	case StateFailing:
	}
	return false
}
