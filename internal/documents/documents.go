// Package documents is the contract of a store of documents: batches and their results, records of dead tasks, and
// learned estimates. Packages mongodocs and redisdocs implement it, and package documentstest is the suite that both
// pass.
//
// A document has a key, a version, a small head and a large body. A store only reads, and swaps a document that has
// still the version that was read. What a change means is a pure function, see [Update]. So each rule is written once,
// for all stores.
package documents

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Largest is the most bytes that head and body of a document may have together. A document of MongoDB has at most
// 16 MiB; the rest is for what the store adds.
const Largest = 15 << 20

// Page is how many documents are read together.
const Page = 200

var (
	// ErrUnavailable means that the store did not answer, or refused the command. A write may have been applied; repeat
	// it.
	ErrUnavailable = errors.New("the database is not available")
	// ErrTooLarge means that a document would be larger than Largest. A retry cannot succeed.
	ErrTooLarge = errors.New("too large for a document")
	// ErrMalformed means that a stored document was not written by Headway, or was changed by others.
	ErrMalformed = errors.New("malformed document")
	// ErrConflict means that a write changed nothing, as the document has another version. [Update] reads it again.
	ErrConflict = errors.New("another writer changed the document")
)

// Document is a stored document.
type Document struct {
	// Key is the name of the document. Documents are in the order of the bytes of their keys.
	Key string
	// Version differs after each write. It is empty for a document that is not stored.
	Version string
	// Group and At are the place of the document in the index, see Times. A document without a group is not there. At
	// has whole milliseconds.
	Group string
	At    time.Time
	// Expires is when the store may delete the document. Zero means never.
	Expires time.Time
	// Head is the small part. Head and Body belong to the reader, and are not checked: they may have any content.
	Head bson.Raw
	// Body is the large part. When read, it is nil if there is none, or if it was not asked for. A write with a nil Body
	// does not change the stored one; Empty deletes it.
	Body bson.Raw
	// Size is the bytes of the stored Body.
	Size int
}

// Empty is a document without fields, for Document.Body.
var Empty = bson.Raw{5, 0, 0, 0, 0} //nolint:gochecknoglobals // a constant

// Store has collections of documents.
type Store interface {
	Collection(name string) Collection
}

// Collection has documents by their keys. It is safe for concurrent use, by any number of processes. Its errors match
// ErrUnavailable unless a method names others.
type Collection interface {
	// EnsureIndexes makes sure of the indexes, if the store needs some. Without them the collection is slow, and keeps
	// expired documents. Any number of processes may call it, repeatedly.
	EnsureIndexes(ctx context.Context) error
	// Get returns the documents with these keys that exist, with their bodies if bodies is true.
	Get(ctx context.Context, keys []string, bodies bool) (map[string]Document, error)
	// Put writes documents, each of them whole or not at all. Errors are in the order of the writes. An error that
	// matches ErrConflict or ErrTooLarge is of one write, and does not stop the others. A write that is sent again after
	// it was applied may succeed or conflict.
	Put(ctx context.Context, writes []Write) []error
	// Delete deletes a document that has this version, and returns whether it did.
	Delete(ctx context.Context, key, version string) (bool, error)
	// ByKey returns the first documents of a range, without bodies, in the order of their keys.
	ByKey(ctx context.Context, r Keys) ([]Document, error)
	// ByTime returns the first documents of a range, without bodies, in the order of At and then of Key.
	ByTime(ctx context.Context, r Times) ([]Document, error)
	// Count returns how many documents are in a range. It ignores After, Newest and Limit.
	Count(ctx context.Context, r Times) (int, error)
}

// Write is a document to write in place of the one with the version Old. An empty Old means that none is stored.
type Write struct {
	Document

	Old string
}

// Keys is a range of keys: From <= key < To, and beyond After.
type Keys struct {
	From, To string
	// After continues a range behind this key. Empty means from its begin.
	After string
	Limit int
}

// Times is a range of the documents of a group: Since <= At < Until. A zero time is no bound.
type Times struct {
	Group        string
	Since, Until time.Time
	// After continues a range behind this document.
	After *Document
	// Newest reverses the order.
	Newest bool
	Limit  int
}

// Check returns an error that matches ErrTooLarge if a document is too large.
func (d *Document) Check() error {
	if size := len(d.Head) + len(d.Body); size > Largest {
		return fmt.Errorf("%w: document %.100q would have %d bytes, the most is %d", ErrTooLarge, d.Key, size, Largest)
	}
	return nil
}

// Prefix returns the range of the keys that begin with a text.
func Prefix(text string) Keys { return Keys{From: text, To: text + "\U0010FFFF"} }

// Bounds returns Since and Until in whole milliseconds, for times in whole milliseconds.
func (r Times) Bounds() (since, until time.Time) { return ceil(r.Since), ceil(r.Until) }

func ceil(at time.Time) time.Time {
	if whole := at.Truncate(time.Millisecond); whole.Before(at) {
		return whole.Add(time.Millisecond)
	}
	return at
}

// newVersion returns a version that no other write has.
func newVersion() string { return rand.Text() }

// VersionSize is how many characters a version has.
const VersionSize = 26
