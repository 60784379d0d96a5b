package deadtasks

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/fleet/deadletter"
)

// recorder implements deadletter.Store.
type recorder struct{ *Store }

// Recorder returns what packages worker and cmd write records with. Programs need not call it.
func (s *Store) Recorder() deadletter.Store { return recorder{s} }

// Failed usually takes one or two round trips. A first attempt replaces the record, unless the task was dead before. An
// attempt that a worker reports after the end of the task does not change the state.
func (s recorder) Failed(ctx context.Context, task deadletter.Ref, attempt deadletter.Attempt) error {
	one, expires := tryOf(attempt), s.expiry()
	c := change(key(task.Queue, task.ID), func(h *head, d *documents.Document) (bool, error) {
		runs := h.State != StateDead || h.Last < one.Number
		switch {
		case one.Number == 1 && h.Print == "" && (h.State == StateFailing || h.State == StateRecovered):
			h.Tries = []try{one}
		case slices.ContainsFunc(h.Tries, one.same):
			return false, nil
		default:
			h.Tries = append(h.Tries, one)
		}
		if runs {
			h.Tries = h.Tries[max(0, len(h.Tries)-maxTries):]
			h.ID, h.Queue, h.Type, h.State = task.ID, task.Queue, valid(task.Type), StateFailing
			h.At, h.Error, d.Expires = one.At, one.Error, expires
		}
		return true, nil
	})
	c.New = attempt.Number == 1
	return of("store an attempt of task "+task.ID, documents.UpdateOne(ctx, s.records, c))
}

// alive are the states of a task that may still succeed, as far as its record says.
func alive(state State) bool { return state == StateFailing || state == StateDead }

// SentAgain takes two round trips. The records stay readable for the retention.
func (s recorder) SentAgain(ctx context.Context, queue string, ids []string) error {
	now, expires := now(), s.expiry()
	changes := make([]documents.Change, len(ids))
	for i, id := range ids {
		changes[i] = change(key(queue, id), func(h *head, d *documents.Document) (bool, error) {
			if !alive(h.State) {
				return false, nil
			}
			h.State, h.Changed, d.Expires = StateRequeued, now, expires
			h.Requeues = append(h.Requeues, now)
			return true, nil
		})
	}
	return of("store which tasks were sent again", errors.Join(documents.Update(ctx, s.records, changes)...))
}

// Recovered takes two round trips. The failed attempts stay readable for the retention.
func (s recorder) Recovered(ctx context.Context, task deadletter.Ref) error {
	now, expires := now(), s.expiry()
	err := documents.UpdateOne(ctx, s.records, change(key(task.Queue, task.ID),
		func(h *head, d *documents.Document) (bool, error) {
			if !alive(h.State) {
				return false, nil
			}
			h.State, h.Changed, d.Expires = StateRecovered, now, expires
			return true, nil
		}))
	return of("store that task "+task.ID+" succeeded", err)
}

// now is the time as documents store it.
func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }
