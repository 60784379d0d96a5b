package reservations

import (
	"context"

	"github.com/headway-go/headway/internal/bucket"
)

// Identity says which store a process uses. The zero Identity is that of a store that can't say it.
type Identity struct {
	// ID is the same for all processes that use one store, and differs from the ID of any other store.
	ID string `json:"id"`
	// Place is where the store is, for people, without credentials. Processes may use different names for one store.
	Place string `json:"place"`
}

func (i Identity) String() string { return i.Place + " (ID " + i.ID + ")" }

// Identified is a Store that says which one it is. Processes of a fleet compare that, because two stores would each
// start as much as a limit allows.
type Identified interface {
	// Identity returns the identity of the store, and makes it if the store is new. The error matches ErrUnavailable.
	Identity(ctx context.Context) (Identity, error)
}

// Identity returns the identity of the store: zero if the store is not Identified. The error matches
// ErrUnavailable.
func (b *buckets) Identity(ctx context.Context) (Identity, error) {
	store, ok := b.store.(Identified)
	if !ok {
		return Identity{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	return store.Identity(ctx)
}

// Halt lets no further request reach the store: each one ends with an error that matches ErrUnavailable and cause, so
// that no task starts. A nil cause ends that.
func (b *buckets) Halt(cause error) {
	if cause == nil {
		b.halted.Store(nil)
		return
	}
	b.halted.Store(&cause)
}

// haltedError is the error of a request to this bucket after Halt; nil otherwise.
func (b *buckets) haltedError(at BucketName) error {
	cause := b.halted.Load()
	if cause == nil {
		return nil
	}
	return &bucket.UnavailableError{Bucket: at.String(), Applied: bucket.AppliedNo, Err: *cause}
}
