package batches

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/text/batchref"
)

// listed is the group of all batches in the index, by the time at which they were opened.
const listed = "batches"

// LimitsBetween stands between the limits of a batch where they are stored as one text.
const LimitsBetween = ", "

// State is whether the requests of a batch may still be sent.
type State string

// The states of a batch.
const (
	StateOpen      State = "open"      // the sender enqueues its requests
	StateCancelled State = "cancelled" // no further request is enqueued
	StateEnded     State = "ended"     // all requests have a result; never stored
)

// Batch is the record of one batch file. As JSON it is a part of what `headway status --json` prints.
type Batch struct {
	ID   string `bson:"-"    json:"batch"` // letters, digits, "-" and "_", at most 100 of them
	Name string `bson:"name" json:"name"`  // for people, e.g. the name of the file
	Hash string `bson:"hash" json:"-"`     // of the file's content
	Key  string `bson:"key"  json:"-"`     // signs the references in its tasks; Open makes one where it is empty

	Lines    int `bson:"lines"              json:"-"`        // number of the last line with a request; blank lines count
	Requests int `bson:"requests,omitempty" json:"requests"` // how many lines have a request

	Created time.Time `bson:"created" json:"created"` // when the batch was opened, in milliseconds
	Limit   string    `bson:"limit"   json:"limit"`   // the buckets of its requests, with LimitsBetween between them

	// Queue and Retries are the options of its tasks. Model is set if the batch has one model for all requests.
	Queue   string `bson:"queue,omitempty"   json:"queue,omitempty"`
	Model   string `bson:"model,omitempty"   json:"-"`
	Retries int    `bson:"retries,omitempty" json:"-"`

	State    State `bson:"state"    json:"state"`
	Enqueued int   `bson:"enqueued" json:"enqueued_to_line"` // the last line up to which all requests are enqueued

	// FailuresMost is after how many failed requests the batch stops; zero never stops it. Excused is how many had
	// failed when the batch went on after a stop: they do not count. StoppedBy is set while the batch is stopped.
	FailuresMost int  `bson:"failures_most,omitempty" json:"max_failures,omitempty"`
	Excused      int  `bson:"excused,omitempty"       json:"-"`
	StoppedBy    Stop `bson:"stopped_by,omitempty"    json:"stopped_by,omitempty"`
}

// Limits are the names of the buckets of its requests.
func (b Batch) Limits() []string { return strings.Split(b.Limit, LimitsBetween) }

// batchHead is the head of the document of a batch.
type batchHead struct {
	Batch `bson:",inline"`

	// How often Reopen began and ended to put results back; see Counter.
	Begun int `bson:"reopen_begun,omitempty"`
	Ended int `bson:"reopen_ended,omitempty"`

	Others map[string]bson.RawValue `bson:",inline"` // fields of a later version
}

func decodeBatch(d documents.Document) (h batchHead, err error) {
	if err = bson.Unmarshal(d.Head, &h); err != nil {
		return batchHead{}, fmt.Errorf("%w: batch %.200q: %w", ErrMalformed, d.Key, err)
	}
	h.ID, h.Created = d.Key, h.Created.UTC()
	return h, nil
}

// Open stores b, or finds the stored batch with its ID; then existed is true. It returns the stored batch. Its Lines
// and Requests grow to the numbers in b: after a limit is raised, the same file may have more valid lines. The error
// matches [ErrDifferentFile] if the stored batch has another hash. A zero Created means now. The FailuresMost of b
// replaces the stored one.
func (s *Store) Open(ctx context.Context, b Batch) (stored Batch, existed bool, err error) {
	if err = checkLine(b.ID, b.Lines); err != nil {
		return Batch{}, false, err
	}
	if b.Created.IsZero() {
		b.Created = s.now()
	}
	if b.State == "" {
		b.State = StateOpen
	}
	b.Key = cmp.Or(b.Key, batchref.NewKey())
	b.Created = b.Created.UTC().Truncate(time.Millisecond)
	var h batchHead
	change := documents.Change{Key: b.ID, New: true, Apply: func(d *documents.Document) (write bool, err error) {
		if existed = d.Version != ""; !existed {
			h = batchHead{Batch: b}
			d.Group, d.At, d.Expires = listed, b.Created, s.now().Add(Retention+outlive)
		} else if h, err = decodeBatch(*d); err != nil {
			return false, err
		}
		if h.Hash != b.Hash {
			return false, fmt.Errorf("%w (%q, of %s)", ErrDifferentFile, h.Name, h.Created.Format(time.RFC3339))
		}
		write = !existed || b.Lines > h.Lines || b.Requests > h.Requests || b.FailuresMost != h.FailuresMost || h.Key == ""
		h.FailuresMost, h.Key = b.FailuresMost, cmp.Or(h.Key, b.Key)
		h.Lines, h.Requests = max(h.Lines, b.Lines), max(h.Requests, b.Requests)
		d.Head, err = bson.Marshal(h)
		return write, err
	}}
	err = documents.UpdateOne(ctx, s.batches, change)
	return h.Batch, existed, of("open", b.ID, err)
}

// Batch returns the batch with this ID, or the only batch whose ID begins with it. The error matches
// [ErrUnknownBatch] if there is none, and [ErrAmbiguousBatch] if there are several.
func (s *Store) Batch(ctx context.Context, id string) (Batch, error) {
	if err := checkID(id); err != nil {
		return Batch{}, fmt.Errorf("%w: %w", ErrUnknownBatch, err)
	}
	// "{" sorts after all characters of an ID.
	page, err := s.batches.ByKey(ctx, documents.Keys{From: id, To: id + "{", Limit: 2})
	switch {
	case err != nil:
		return Batch{}, of("read", id, err)
	case len(page) == 0:
		return Batch{}, fmt.Errorf("%w: %q", ErrUnknownBatch, id)
	case len(page) > 1 && page[0].Key != id:
		return Batch{}, fmt.Errorf("%w: %q begins %s, %s and possibly others", ErrAmbiguousBatch, id, page[0].Key,
			page[1].Key)
	}
	h, err := decodeBatch(page[0])
	return h.Batch, err
}

// List returns at most limit batches, the newest first. A limit of zero or less means all. An error that matches
// ErrMalformed names the batches that it passed over.
func (s *Store) List(ctx context.Context, limit int) (found []Batch, err error) {
	var faults []error
	newest := documents.InTimes(s.batches, documents.Times{Group: listed, Newest: true})
	for d, err := range (documents.Reader{Collection: s.batches, Page: newest}).All(ctx) {
		if err != nil {
			return nil, fmt.Errorf("list batches: %w", err)
		}
		if h, err := decodeBatch(d); err == nil {
			found = append(found, h.Batch)
		} else {
			faults = append(faults, err)
		}
		if limit > 0 && len(found)+len(faults) == limit {
			break
		}
	}
	return found, errors.Join(faults...)
}

// SetEnqueued stores that the requests of lines 1 to upTo are enqueued. The stored number never decreases. If the
// batch was cancelled meanwhile, SetEnqueued stores the number and returns an error that matches [ErrCancelled], so
// that the sender stops.
func (s *Store) SetEnqueued(ctx context.Context, id string, upTo int) error {
	changed, err := s.changeBatch(ctx, "store the progress of", id, func(h *batchHead) {
		h.Enqueued = max(h.Enqueued, upTo)
	})
	if err == nil && changed.State == StateCancelled {
		return fmt.Errorf("batches: batch %q: %w", id, ErrCancelled)
	}
	return err
}

// Cancel ends the batch: the sender enqueues no further requests. Running requests may still end, and their results
// count.
func (s *Store) Cancel(ctx context.Context, id string) error {
	_, err := s.changeBatch(ctx, "cancel", id, func(h *batchHead) { h.State = StateCancelled })
	return err
}

// Resume opens a cancelled or stopped batch again. Requests that have failed so far are excused.
func (s *Store) Resume(ctx context.Context, id string) error {
	counts, err := s.Counts(ctx, id)
	if err != nil {
		return err
	}
	_, err = s.changeBatch(ctx, "resume", id, func(h *batchHead) {
		h.State, h.StoppedBy, h.Excused = StateOpen, "", counts.Failed
	})
	return err
}

// changeBatch changes the record of a batch and returns the new record.
func (s *Store) changeBatch(ctx context.Context, op, id string, by func(*batchHead)) (h batchHead, err error) {
	change := documents.Change{Key: id, Apply: func(d *documents.Document) (_ bool, err error) {
		if d.Version == "" {
			return false, fmt.Errorf("%w: %q", ErrUnknownBatch, id)
		}
		if h, err = decodeBatch(*d); err != nil {
			return false, err
		}
		by(&h)
		d.Head, err = bson.Marshal(h)
		return true, err
	}}
	err = documents.UpdateOne(ctx, s.batches, change)
	return h, of(op, id, err)
}
