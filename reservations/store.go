package reservations

import "context"

// Store keeps buckets and applies requests to them. The package storetest holds the conformance suite that every Store has to pass.
type Store interface {
	// Apply folds the requests, in order, into the bucket of limit and key, as Step does, and returns one outcome for each.
	//
	// It is one atomic change: a concurrent caller sees all of it or nothing. The store's own clock decides; it is the same
	// for all callers, and may run backwards. A bucket that is not there is full. The requests are valid for the limit.
	//
	// The error is an *UnavailableError: nothing else can go wrong. Apply does not retry what may have been applied.
	// Apply returns when ctx is done.
	Apply(ctx context.Context, limit Limit, key string, requests []Request) ([]Outcome, error)
	// Reset forgets the bucket: it is full again, as one that was never used. Those who wait keep their times. Errors as for Apply.
	Reset(ctx context.Context, limit Limit, key string) error
	// Bucket reads the bucket of the limit's name and key as it was after its last request; false where there is none, i.e. it is full. It changes nothing, and
	// may be a little behind. Errors as for Apply.
	Bucket(ctx context.Context, limit, key string) (Bucket, bool, error)
}
