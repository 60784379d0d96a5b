// Package files stores the files of callers of the gateway: records in a store of documents, contents there too, or in
// a folder.
package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/documents/owned"
)

const (
	// Retention is how long a file is stored unless its record says less: 30 days, as results are.
	Retention = 30 * 24 * time.Hour
	// MostDefault is the largest file: 200 MB, as OpenAI's for batches.
	MostDefault = 200_000_000
	// MostInRedis is the largest file where contents take the memory of Redis.
	MostInRedis = 50_000_000
	// StoredDefault is how much all files of an owner take at most, in bytes.
	StoredDefault = 10_000_000_000
	// StoredInRedis is that where contents take the memory of Redis.
	StoredInRedis = 500_000_000
	// usesMost is how many batches may use a file at once.
	usesMost = 1000
	// dropPatience bounds the deletion of an upload that has failed. Its expiry deletes what stays.
	dropPatience = 10 * time.Second
)

// The purposes of files.
const (
	PurposeBatch  = "batch"        // the input of batches
	PurposeOutput = "batch_output" // has no content here: it is made of results
)

var (
	// ErrTooLarge means that a content is larger than a Store takes.
	ErrTooLarge = errors.New("the file is too large")
	// ErrUsed means that as many batches use a file as may.
	ErrUsed = errors.New("too many batches use the file")
)

// File is the record of a file.
type File struct {
	Name    string `bson:"name"`
	Purpose string `bson:"purpose"`
	Bytes   int64  `bson:"bytes"`
	// Batch is the ID of the batch whose results are the content. Empty for an uploaded file.
	Batch string `bson:"batch,omitempty"`
}

// Store stores files. It is safe for concurrent use, by any number of processes.
type Store struct {
	*owned.Records[File]

	contents Contents
	uses     documents.Collection
	account  account
	most     int64
	now      func() time.Time
}

// Bounds are in bytes.
type Bounds struct {
	File  int64 // the largest content; zero means MostDefault
	Owner int64 // all contents of an owner; zero means StoredDefault. The largest content has room in any case
}

// New returns the files of a store of documents. Nil as the clock means time.Now. Close it.
func New(in documents.Store, contents Contents, bounds Bounds, now func() time.Time) *Store {
	if now == nil {
		now = time.Now
	}
	most := cmp.Or(bounds.File, MostDefault)
	return &Store{
		Records: owned.New[File](in.Collection("gateway_files"), now), contents: contents,
		uses: in.Collection("gateway_contents"), most: most, now: now, account: account{
			in: in.Collection("gateway_stored"), most: max(cmp.Or(bounds.Owner, StoredDefault), most), now: now,
		},
	}
}

// EnsureIndexes makes sure of the indexes.
func (s *Store) EnsureIndexes(ctx context.Context) error {
	return errors.Join(s.Records.EnsureIndexes(ctx), s.uses.EnsureIndexes(ctx), s.account.in.EnsureIndexes(ctx))
}

// Close closes the contents.
func (s *Store) Close() error { return s.contents.Close() }

// Most is the largest content, in bytes.
func (s *Store) Most() int64 { return s.most }

// Stored is how much all contents of an owner take at most, in bytes.
func (s *Store) Stored() int64 { return s.account.most }

// Upload is a content that is stored, without a record yet. Keep or Drop it.
type Upload struct {
	store     *Store
	id, owner string
	reserved  entry
	Bytes     int64
}

// Write stores a content of an owner, of at most size bytes; negative is any size. The error matches ErrTooLarge if it
// is above the bound, and ErrFull if the owner has no room for size bytes. Other errors of the reader and of the store
// are as they are.
func (s *Store) Write(ctx context.Context, owner string, content io.Reader, size int64) (_ *Upload, err error) {
	if size < 0 || size > s.most {
		size = s.most
	}
	u := &Upload{store: s, id: owned.NewID("file-"), owner: owner, reserved: entryOf(size, s.now().Add(unfinished))}
	if err = s.account.move(ctx, owner, entry{}, u.reserved); err != nil {
		return nil, err
	}
	u.Bytes, err = s.contents.Create(ctx, u.id, io.LimitReader(content, s.most+1))
	if err == nil && u.Bytes > s.most {
		err = fmt.Errorf("%w: at most %d bytes", ErrTooLarge, s.most)
	}
	if err != nil {
		u.Drop(ctx)
		return nil, err
	}
	return u, nil
}

// Drop deletes an upload that was not kept, also if ctx has ended.
func (u *Upload) Drop(ctx context.Context) {
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), dropPatience)
	defer end()
	_ = u.store.contents.Expire(ctx, u.id, gone)
	_ = u.store.account.move(ctx, u.owner, u.reserved, entry{})
}

// Keep stores the record of an upload. A zero expires means Retention from now.
func (u *Upload) Keep(ctx context.Context, f File, expires time.Time) (r owned.Record[File], err error) {
	if expires.IsZero() {
		expires = u.store.now().Add(Retention)
	}
	f.Bytes = u.Bytes
	err = u.store.use(ctx, u.id, u.reserved, func(of *use) error {
		of.Owner, of.Bytes, of.Until = u.owner, u.Bytes, map[string]time.Time{u.id: expires}
		return nil
	})
	if err != nil {
		u.Drop(ctx)
		return r, err
	}
	r, err = u.store.Create(ctx, owned.Record[File]{ID: u.id, Owner: u.owner, Expires: expires, Value: f})
	if err != nil {
		dropping, end := context.WithTimeout(context.WithoutCancel(ctx), dropPatience)
		defer end()
		_ = u.store.endUse(dropping, u.id, u.id)
	}
	return r, err
}

// Read opens the content of a file, also of a deleted one that a batch has pinned. An error of it, or of its reader,
// matches ErrNoContent if the content is not whole.
func (s *Store) Read(ctx context.Context, id string) (io.ReadCloser, error) {
	u, err := s.used(ctx, id)
	if err != nil {
		return nil, err
	}
	if len(u.Until) == 0 {
		return nil, fmt.Errorf("%w: nothing uses %.100q", ErrNoContent, id)
	}
	return s.contents.Open(ctx, id, u.Bytes)
}

// Remove deletes the record of a file, and its content unless a batch has pinned it.
func (s *Store) Remove(ctx context.Context, owner, id string) error {
	if err := s.Delete(ctx, owner, id); err != nil {
		return err
	}
	_ = s.endUse(ctx, id, id) // else its content goes away when the file would have expired
	return nil
}

// Pin keeps the content of a file for a batch, also after the file is deleted. The error matches ErrNoContent if it is
// deleted already, and ErrUsed if too many batches have it pinned.
func (s *Store) Pin(ctx context.Context, id, batch string, until time.Time) error {
	return s.use(ctx, id, entry{}, func(u *use) error {
		if _, stored := u.Until[id]; !stored {
			return fmt.Errorf("%w: %s", ErrNoContent, id)
		}
		if len(u.Until) > usesMost {
			return fmt.Errorf("%w: %d", ErrUsed, usesMost)
		}
		u.Until[batch] = until
		return nil
	})
}

// Unpin ends Pin.
func (s *Store) Unpin(ctx context.Context, id, batch string) error { return s.endUse(ctx, id, batch) }

// Sweep makes sure that contents go away that have expired, or whose upload ended in its middle.
func (s *Store) Sweep(ctx context.Context) error { return s.contents.Sweep(ctx) }
