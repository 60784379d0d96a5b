package deadtasks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/fleet/deadletter"
	"github.com/headway-go/headway/internal/line/asynqdb"
)

const (
	// wholeSecond is how coarse asynq's times are.
	wholeSecond = time.Second
	// archiving is by how much asynq's archive may have the task later than the record, where clocks differ.
	archiving = time.Minute
)

// errOtherTask means that a record is of another dead task with the same ID.
var errOtherTask = errors.New("the record is of another dead task")

// Record takes one round trip, and a few more if records exist already. A payload of more than 14 MB after
// compression is left out: see Task.Missing.
func (s recorder) Record(ctx context.Context, dead []deadletter.Task) error {
	var faults []error
	entries := make([]*entry, 0, len(dead))
	for _, t := range dead {
		g, err := s.entryOf(t)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		entries = append(entries, g)
	}
	for len(entries) > 0 {
		changes := make([]documents.Change, len(entries))
		for i, g := range entries {
			changes[i] = change(g.key, g.apply)
			changes[i].New = true
		}
		var again []*entry
		for i, err := range documents.Update(ctx, s.records, changes) {
			switch g := entries[i]; {
			case errors.Is(err, errOtherTask) && !strings.Contains(g.key, "#"):
				g.key += "#" + g.Print[:printShown]
				again = append(again, g)
			case errors.Is(err, ErrMalformed), errors.Is(err, errOtherTask): // a retry cannot succeed
				faults = append(faults, fmt.Errorf("record task %s: %w: %w", g.ID, deadletter.ErrNotKept, err))
			case err != nil:
				faults = append(faults, of("record task "+g.key, err))
			}
		}
		entries = again
	}
	return errors.Join(faults...)
}

// entry is one dead task on its way into its record: the new head, without attempts, and the new body.
type entry struct {
	head

	key     string
	body    bson.Raw
	since   time.Time // a later requeue stays; zero: none does
	last    deadletter.Attempt
	expires time.Time
}

func (s *Store) entryOf(t deadletter.Task) (*entry, error) {
	h, b, err := contents(t)
	if err != nil {
		return nil, err
	}
	g := &entry{head: h, key: key(t.Queue, t.ID), last: t.Last}
	if g.body, err = bson.Marshal(b); err != nil {
		return nil, fmt.Errorf("deadtasks: payload of task %s: %w", t.ID, err)
	}
	if t.Cause == deadletter.CauseFound {
		g.since = t.At.Add(wholeSecond)
	}
	g.ID, g.Queue, g.Type, g.State = t.ID, t.Queue, valid(t.Type), StateDead
	g.At, g.Cause = t.At.UTC().Truncate(time.Millisecond), t.Cause
	g.Error, g.Last = cut(t.Last.Error), t.Last.Number
	if g.Batch != "" { // the batch stores the request, and sends it again
		g.expires = s.expiry()
	}
	return g, nil
}

func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// apply records the task, unless it was requeued since. The record of another dead task is an error.
func (g *entry) apply(h *head, d *documents.Document) (bool, error) {
	if !g.since.IsZero() && h.Changed.After(g.since) {
		return false, nil
	}
	if h.Print != "" && h.Print != g.Print && (h.State == StateDead || h.State == StateRequeueing) {
		return false, errOtherTask
	}
	next := g.head
	next.Tries, next.Requeues, next.Others = slices.Clone(h.Tries), h.Requeues, h.Others
	if one := tryOf(g.last); one.Number > 0 && !slices.ContainsFunc(next.Tries, one.same) {
		next.Tries = append(next.Tries, one)
	}
	*h, d.Body, d.Expires = next, g.body, g.expires
	return true, nil
}

// Unknown takes one round trip, and one more for each record that does not know the end of its task: there may be
// another one, as the ID was that of another dead task.
func (s recorder) Unknown(ctx context.Context, archived []asynqdb.Archived) ([]asynqdb.Archived, error) {
	keys := make([]string, len(archived))
	for i, a := range archived {
		keys[i] = key(a.Queue, a.ID)
	}
	slices.Sort(keys)
	found, err := s.records.Get(ctx, slices.Compact(keys), false)
	if err != nil {
		return nil, of("look for records", err)
	}
	var unknown []asynqdb.Archived
	var faults []error
	for _, a := range archived {
		d, stored := found[key(a.Queue, a.ID)]
		known, err := knows(d, a)
		if stored && !known && err == nil {
			known, err = s.besideKnows(ctx, a)
		}
		switch {
		case errors.Is(err, ErrMalformed):
			faults = append(faults, fmt.Errorf("%w: %w", deadletter.ErrNotKept, err)) // a retry cannot succeed
		case err != nil:
			return nil, err
		case !known:
			unknown = append(unknown, a)
		}
	}
	return unknown, errors.Join(faults...)
}

// besideKnows returns whether a record beside the first one contains the end of an archived task.
func (s *Store) besideKnows(ctx context.Context, a asynqdb.Archived) (bool, error) {
	page := documents.InKeys(s.records, documents.Prefix(key(a.Queue, a.ID)+"#"))
	for d, err := range (documents.Reader{Collection: s.records, Page: page}).All(ctx) {
		if err != nil {
			return false, of("look for records", err)
		}
		if known, err := knows(d, a); known || err != nil {
			return known, err
		}
	}
	return false, nil
}

// knows returns whether the record contains the end of an archived task.
func knows(d documents.Document, a asynqdb.Archived) (bool, error) {
	h, err := decodeHead(d)
	switch h.State {
	case StateDead, StateRequeueing:
		return !h.At.Add(archiving).Before(a.At), err
	case StateRequeued, StateRecovered:
		return h.Changed.After(a.At.Add(wholeSecond)), err
	case StateFailing:
	}
	return false, err
}
