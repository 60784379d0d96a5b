package batches

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/internal/batchref"
)

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
	ID   string `bson:"_id"  json:"batch"` // letters, digits, "-" and "_", at most 100 of them
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
}

type batchDocument struct {
	Batch   `bson:",inline"`
	Expires time.Time `bson:"expires"`

	// How often Reopen began and ended to put results back; see Counter.
	Begun int `bson:"reopen_begun,omitempty"`
	Ended int `bson:"reopen_ended,omitempty"`
}

// Open stores b, or finds the stored batch with its ID; then existed is true. It returns the stored batch. Its Lines
// and Requests grow to the numbers in b: after a limit is raised, the same file may have more valid lines. The error
// matches [ErrDifferentFile] if the stored batch has another hash. A zero Created means now.
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
	d := batchDocument{Batch: b, Expires: s.now().Add(Retention + outlive)}
	_, err = s.batches.InsertOne(ctx, d)
	if err == nil {
		d.Created = d.Created.UTC().Truncate(time.Millisecond)
		return d.Batch, false, nil
	}
	if !mongo.IsDuplicateKeyError(err) {
		return Batch{}, false, unavailable("open", b.ID, err)
	}
	var found batchDocument
	if err = s.batches.FindOne(ctx, bson.M{"_id": b.ID}).Decode(&found); err != nil {
		return Batch{}, false, unavailable("open", b.ID, err)
	}
	if found.Hash != b.Hash {
		return found.Batch, true, fmt.Errorf("batches: open batch %q: %w (%q, of %s)",
			b.ID, ErrDifferentFile, found.Name, found.Created.Format(time.RFC3339))
	}
	if b.Lines > found.Lines || b.Requests > found.Requests {
		more := bson.M{"$max": bson.M{"lines": b.Lines, "requests": b.Requests}}
		if found, err = s.changeBatch(ctx, "open", b.ID, more); err != nil {
			return Batch{}, true, err
		}
	}
	return found.Batch, true, nil
}

// Batch returns the batch with this ID, or the only batch whose ID begins with it. The error matches
// [ErrUnknownBatch] if there is none, and [ErrAmbiguousBatch] if there are several.
func (s *Store) Batch(ctx context.Context, id string) (Batch, error) {
	if err := checkID(id); err != nil {
		return Batch{}, fmt.Errorf("%w: %w", ErrUnknownBatch, err)
	}
	// "{" sorts after all characters of an ID.
	filter := bson.M{"_id": bson.M{"$gte": id, "$lt": id + "{"}}
	found, err := s.readBatches(ctx, filter, options.Find().SetSort(bson.M{"_id": 1}).SetLimit(2))
	switch {
	case err != nil:
		return Batch{}, unavailable("read", id, err)
	case len(found) == 0:
		return Batch{}, fmt.Errorf("%w: %q", ErrUnknownBatch, id)
	case len(found) > 1 && found[0].ID != id:
		return Batch{}, fmt.Errorf("%w: %q begins %s, %s and possibly others", ErrAmbiguousBatch, id, found[0].ID,
			found[1].ID)
	}
	return found[0], nil
}

// List returns at most limit batches, the newest first. A limit of zero or less means all. An error that matches
// ErrMalformed names the batches that it passed over.
func (s *Store) List(ctx context.Context, limit int) ([]Batch, error) {
	o := options.Find().SetSort(bson.D{{Key: fieldCreated, Value: -1}, {Key: "_id", Value: 1}})
	if limit > 0 {
		o.SetLimit(int64(limit))
	}
	found, err := s.readBatches(ctx, bson.M{}, o)
	if err != nil {
		err = fmt.Errorf("%w: list batches: %w", kindOf(err), err)
	}
	return found, err
}

// readBatches returns the batches that it can read, beside an error of the others.
func (s *Store) readBatches(ctx context.Context, filter bson.M, o *options.FindOptionsBuilder) ([]Batch, error) {
	cursor, err := s.batches.Find(ctx, filter, o)
	var documents []bson.Raw
	if err == nil {
		err = cursor.All(ctx, &documents)
	}
	if err != nil {
		return nil, err
	}
	found := make([]Batch, 0, len(documents))
	var faults []error
	for _, document := range documents {
		var d batchDocument
		if err := bson.Unmarshal(document, &d); err != nil {
			faults = append(faults, fmt.Errorf("batch %.200s: %w", document.Lookup("_id"), err))
			continue
		}
		found = append(found, d.Batch)
	}
	return found, errors.Join(faults...)
}

// SetEnqueued stores that the requests of lines 1 to upTo are enqueued. The stored number never decreases. If the
// batch was cancelled meanwhile, SetEnqueued stores the number and returns an error that matches [ErrCancelled], so
// that the sender stops.
func (s *Store) SetEnqueued(ctx context.Context, id string, upTo int) error {
	changed, err := s.changeBatch(ctx, "store the progress of", id, bson.M{"$max": bson.M{"enqueued": upTo}})
	if err == nil && changed.State == StateCancelled {
		return fmt.Errorf("batches: batch %q: %w", id, ErrCancelled)
	}
	return err
}

// Cancel ends the batch: the sender enqueues no further requests. Running requests may still end, and their results
// count.
func (s *Store) Cancel(ctx context.Context, id string) error {
	_, err := s.changeBatch(ctx, "cancel", id, bson.M{"$set": bson.M{"state": StateCancelled}})
	return err
}

// Resume opens a cancelled batch again.
func (s *Store) Resume(ctx context.Context, id string) error {
	_, err := s.changeBatch(ctx, "resume", id, bson.M{"$set": bson.M{"state": StateOpen}})
	return err
}

// changeBatch updates the record of a batch and returns the new record.
func (s *Store) changeBatch(ctx context.Context, op, id string, update bson.M) (batchDocument, error) {
	var found batchDocument
	o := options.FindOneAndUpdate().SetReturnDocument(options.After)
	err := s.batches.FindOneAndUpdate(ctx, bson.M{"_id": id}, update, o).Decode(&found)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return batchDocument{}, fmt.Errorf("%w: %q", ErrUnknownBatch, id)
	}
	if err != nil {
		return batchDocument{}, unavailable(op, id, err)
	}
	return found, nil
}
