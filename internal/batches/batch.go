package batches

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// State says whether a batch may go on.
type State string

// The states of a batch.
const (
	StateOpen      State = "open"      // its requests are sent
	StateCancelled State = "cancelled" // its requests are not to be sent any more
)

// Batch is the record of one batch file.
type Batch struct {
	// ID names the batch: letters, digits, "-" and "_", at most 100 of them.
	ID string `bson:"_id"`

	// Name is for people, such as that of the file.
	Name string `bson:"name"`

	// Hash is of the content of the file: the same ID with another hash is another file.
	Hash string `bson:"hash"`

	// Lines is the number of the last line that holds a request. Blank lines count.
	Lines int `bson:"lines"`

	// Requests is the number of lines that hold a request.
	Requests int `bson:"requests,omitempty"`

	// Created is when the batch was opened, in milliseconds.
	Created time.Time `bson:"created"`

	// Limit and Key name the bucket that its requests are charged to.
	Limit string `bson:"limit"`
	Key   string `bson:"key"`

	// Queue and Retries say how its requests are enqueued. Model is set where one was named for the whole batch.
	Queue   string `bson:"queue,omitempty"`
	Model   string `bson:"model,omitempty"`
	Retries int    `bson:"retries,omitempty"`

	// State is open when empty.
	State State `bson:"state"`

	// Enqueued says that lines 1 to Enqueued were sent.
	Enqueued int `bson:"enqueued"`

	// Retention is how long each result is kept. Zero means that of the store's options.
	Retention time.Duration `bson:"-"`
}

type batchDocument struct {
	Batch     `bson:",inline"`
	Retention int64     `bson:"retention"` // in ms
	Expires   time.Time `bson:"expires"`

	// How often putting back began and ended; see Counter.
	Begun int `bson:"reopen_begun,omitempty"`
	Ended int `bson:"reopen_ended,omitempty"`
}

func (d batchDocument) batch() Batch {
	b := d.Batch
	b.Created, b.Retention = b.Created.UTC(), time.Duration(d.Retention)*time.Millisecond
	return b
}

// Open stores b, or finds the stored batch with its ID: existed says which. It returns the stored batch, whose Lines
// and Requests grow to those of b, since a limit that was raised serves more of the same file. The error matches
// [ErrDifferentFile] where the stored batch has another hash. A zero Created means now.
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
	if b.Retention <= 0 {
		b.Retention = s.retention
	}
	d := batchDocument{Batch: b, Retention: b.Retention.Milliseconds(), Expires: s.now().Add(b.Retention + outlive)}
	_, err = s.batches.InsertOne(ctx, d)
	if err == nil {
		d.Created = d.Created.Truncate(time.Millisecond)
		return d.batch(), false, nil
	}
	if !mongo.IsDuplicateKeyError(err) {
		return Batch{}, false, unavailable("open", b.ID, err)
	}
	var found batchDocument
	if err = s.batches.FindOne(ctx, bson.M{"_id": b.ID}).Decode(&found); err != nil {
		return Batch{}, false, unavailable("open", b.ID, err)
	}
	if found.Hash != b.Hash {
		return found.batch(), true, fmt.Errorf("batches: open batch %q: %w (%q, of %s)",
			b.ID, ErrDifferentFile, found.Name, found.Created.UTC().Format(time.RFC3339))
	}
	if b.Lines > found.Lines || b.Requests > found.Requests {
		more := bson.M{"$max": bson.M{"lines": b.Lines, "requests": b.Requests}}
		if found, err = s.changeBatch(ctx, "open", b.ID, more); err != nil {
			return Batch{}, true, err
		}
	}
	return found.batch(), true, nil
}

// Batch returns the batch with this ID, or the only one whose ID begins with it. The error matches [ErrUnknownBatch] or
// [ErrAmbiguousBatch] where there is none, or more than one.
func (s *Store) Batch(ctx context.Context, id string) (Batch, error) {
	if err := checkID(id); err != nil {
		return Batch{}, fmt.Errorf("%w: %w", ErrUnknownBatch, err)
	}
	// "{" is the first character after those of an ID.
	filter := bson.M{"_id": bson.M{"$gte": id, "$lt": id + "{"}}
	found, err := s.readBatches(ctx, filter, options.Find().SetSort(bson.M{"_id": 1}).SetLimit(2))
	switch {
	case err != nil:
		return Batch{}, unavailable("read", id, err)
	case len(found) == 0:
		return Batch{}, fmt.Errorf("%w: %q", ErrUnknownBatch, id)
	case len(found) > 1 && found[0].ID != id:
		return Batch{}, fmt.Errorf("%w: %q begins %s, %s and maybe more", ErrAmbiguousBatch, id, found[0].ID,
			found[1].ID)
	}
	return found[0], nil
}

// List returns the newest batches first, at most limit of them; zero and below mean all.
func (s *Store) List(ctx context.Context, limit int) ([]Batch, error) {
	o := options.Find().SetSort(bson.D{{Key: fieldCreated, Value: -1}, {Key: "_id", Value: 1}})
	if limit > 0 {
		o.SetLimit(int64(limit))
	}
	found, err := s.readBatches(ctx, bson.M{}, o)
	if err != nil {
		return nil, unavailable("list", "", err)
	}
	return found, nil
}

func (s *Store) readBatches(ctx context.Context, filter bson.M, o *options.FindOptionsBuilder) ([]Batch, error) {
	cursor, err := s.batches.Find(ctx, filter, o)
	var documents []batchDocument
	if err == nil {
		err = cursor.All(ctx, &documents)
	}
	if err != nil {
		return nil, err
	}
	found := make([]Batch, len(documents))
	for i, d := range documents {
		found[i] = d.batch()
	}
	return found, nil
}

// SetEnqueued stores that lines 1 to upTo were sent; the mark never goes back. Where the batch was cancelled meanwhile,
// the mark is set as well and the error matches [ErrCancelled], so that the sender stops.
func (s *Store) SetEnqueued(ctx context.Context, id string, upTo int) error {
	changed, err := s.changeBatch(ctx, "note the progress of", id, bson.M{"$max": bson.M{"enqueued": upTo}})
	if err == nil && changed.State == StateCancelled {
		return fmt.Errorf("batches: batch %q: %w", id, ErrCancelled)
	}
	return err
}

// Cancel ends the batch: its requests are not to be sent any more. Those under way may still end, and their results
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

// changeBatch updates the record of a batch and returns it as it is then.
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
