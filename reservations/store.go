package reservations

import (
	"context"
	"time"

	"github.com/headway-go/headway/internal/bucket"
)

// Store keeps buckets and applies requests to them: that of package memstore, mongostore or redisstore. Its methods
// speak the types of Headway's own packages, and its package storetest holds the conformance suite of all stores.
type Store interface {
	// Apply loads the bucket of limit and key, folds the requests into it, in order, by bucket.Fold, and swaps it. It
	// returns one answer for each request.
	//
	// Apply is one atomic change: a concurrent caller sees all of it or nothing. Now is the store's own clock, the same
	// for all callers; it may run backwards. A bucket that is not stored is the zero Bucket. A bucket whose Version did
	// not grow need not be written, but it has to be the newest one. A bucket may be forgotten from KeepUntil on. A store
	// that may have lost changes sets Since in a bucket that it has not written since, or does not have. The requests
	// are valid for the limit.
	//
	// The error is a *bucket.UnavailableError. Apply does not repeat what may have been applied, and returns when ctx is
	// done.
	Apply(ctx context.Context, limit bucket.Limit, key string, requests []bucket.Request) ([]bucket.Answer, error)
	// Reset forgets the bucket of the limit's name and key: it is full again, as one that was never used. Errors as for
	// Apply.
	Reset(ctx context.Context, limit, key string) error
	// Load reads the bucket of the limit's name and key, and the store's clock. A zero At means that none is stored: it
	// is full, as far as Since allows. Load changes nothing, and may be a little behind. Errors as for Apply.
	Load(ctx context.Context, limit, key string) (bucket.Bucket, time.Time, error)
}
