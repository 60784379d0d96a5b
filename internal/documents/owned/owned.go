// Package owned stores records that only their owner can see, such as the files and batches of callers of the gateway.
package owned

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/documents"
)

var (
	// ErrUnknown means that there is no such record, or that it is another owner's.
	ErrUnknown = errors.New("no such record")
	// ErrExists means that a record with this ID is stored.
	ErrExists = errors.New("the record exists")
)

// ListMost is the most records of one list.
const ListMost = 1000

// Record is a stored value.
type Record[T any] struct {
	ID, Owner        string
	Created, Expires time.Time // in milliseconds
	Value            T
}

// Records are the records of one collection. Safe for concurrent use, by any number of processes.
type Records[T any] struct {
	in  documents.Collection
	now func() time.Time
}

// New returns the records in a collection. Nil as the clock means time.Now.
func New[T any](in documents.Collection, now func() time.Time) *Records[T] {
	if now == nil {
		now = time.Now
	}
	return &Records[T]{in: in, now: now}
}

// NewID returns a random ID of 26 letters and digits behind a prefix.
func NewID(prefix string) string { return prefix + strings.ToLower(rand.Text()) }

// EnsureIndexes makes sure of the indexes.
func (s *Records[T]) EnsureIndexes(ctx context.Context) error { return s.in.EnsureIndexes(ctx) }

// head is the head of a document.
type head[T any] struct {
	Owner string `bson:"owner"`
	Value T      `bson:"value"`
}

// Group is the group of the records of an owner. It is a hash: an owner may be any text.
func Group(owner string) string {
	sum := sha256.Sum256([]byte(owner))
	return hex.EncodeToString(sum[:16])
}

func decode[T any](d documents.Document) (r Record[T], err error) {
	var h head[T]
	if err = bson.Unmarshal(d.Head, &h); err != nil {
		return r, fmt.Errorf("%w: %.100q: %w", documents.ErrMalformed, d.Key, err)
	}
	return Record[T]{
		ID: d.Key, Owner: h.Owner, Created: d.At.UTC(), Expires: d.Expires.UTC(), Value: h.Value,
	}, nil
}

// Create stores a new record. A zero Created means now. The error matches ErrExists if there is one with its ID.
func (s *Records[T]) Create(ctx context.Context, r Record[T]) (Record[T], error) {
	if r.Created.IsZero() {
		r.Created = s.now()
	}
	r.Created = r.Created.UTC().Truncate(time.Millisecond)
	err := documents.UpdateOne(ctx, s.in, documents.Change{
		Key: r.ID, New: true,
		Apply: func(d *documents.Document) (_ bool, err error) {
			if d.Version != "" {
				return false, fmt.Errorf("%w: %q", ErrExists, r.ID)
			}
			d.Group, d.At, d.Expires = Group(r.Owner), r.Created, r.Expires
			d.Head, err = bson.Marshal(head[T]{Owner: r.Owner, Value: r.Value})
			return true, err
		},
	})
	return r, err
}

// read returns the document of a record that has not expired.
func (s *Records[T]) read(ctx context.Context, owner, id string) (documents.Document, Record[T], error) {
	found, err := s.in.Get(ctx, []string{id}, false)
	if err != nil {
		return documents.Document{}, Record[T]{}, err
	}
	d, known := found[id]
	if !known {
		return d, Record[T]{}, fmt.Errorf("%w: %.100q", ErrUnknown, id)
	}
	r, err := decode[T](d)
	if err == nil && (r.Owner != owner || !r.Expires.IsZero() && !s.now().Before(r.Expires)) {
		return documents.Document{}, Record[T]{}, fmt.Errorf("%w: %.100q", ErrUnknown, id)
	}
	return d, r, err
}

// Get returns a record of an owner. The error matches ErrUnknown if the owner has none with this ID.
func (s *Records[T]) Get(ctx context.Context, owner, id string) (Record[T], error) {
	_, r, err := s.read(ctx, owner, id)
	return r, err
}

// Page is a part of a list.
type Page struct {
	After  string // continues behind the record with this ID; empty from the begin
	Limit  int    // at most ListMost
	Oldest bool   // the oldest first, else the newest
}

// List returns some records of an owner. More says that others follow.
func (s *Records[T]) List(ctx context.Context, owner string, p Page) (found []Record[T], more bool, err error) {
	limit := min(max(p.Limit, 1), ListMost)
	times := documents.Times{Group: Group(owner), Newest: !p.Oldest, Limit: limit + 1}
	if p.After != "" {
		d, _, failed := s.read(ctx, owner, p.After)
		if failed != nil {
			return nil, false, failed
		}
		times.After = &d
	}
	page, err := s.in.ByTime(ctx, times)
	if err != nil {
		return nil, false, err
	}
	if more = len(page) > limit; more {
		page = page[:limit]
	}
	for _, d := range page {
		r, err := decode[T](d)
		if err != nil || r.Owner != owner || !r.Expires.IsZero() && !s.now().Before(r.Expires) {
			continue // damaged, or to be deleted soon
		}
		found = append(found, r)
	}
	return found, more, nil
}

// Change changes a record of an owner by a pure function, which returns whether to write it.
func (s *Records[T]) Change(
	ctx context.Context, owner, id string, by func(*Record[T]) bool,
) (changed Record[T], err error) {
	err = documents.UpdateOne(ctx, s.in, documents.Change{
		Key: id,
		Apply: func(d *documents.Document) (write bool, err error) {
			if d.Version == "" {
				return false, fmt.Errorf("%w: %.100q", ErrUnknown, id)
			}
			if changed, err = decode[T](*d); err != nil {
				return false, err
			}
			if changed.Owner != owner {
				return false, fmt.Errorf("%w: %.100q", ErrUnknown, id)
			}
			if !by(&changed) {
				return false, nil
			}
			d.Expires = changed.Expires
			d.Head, err = bson.Marshal(head[T]{Owner: owner, Value: changed.Value})
			return true, err
		},
	})
	return changed, err
}

// Delete deletes a record of an owner. The error matches ErrUnknown if the owner has none with this ID.
func (s *Records[T]) Delete(ctx context.Context, owner, id string) error {
	d, _, err := s.read(ctx, owner, id)
	if err != nil {
		return err
	}
	_, err = s.in.Delete(ctx, id, d.Version)
	return err
}
