package reservations

import (
	"context"
	"errors"

	"github.com/headway-go/headway/internal/bucket"
)

// NoStore is the store of a program that enqueues tasks, knows the limits, and has no buckets at hand: none answers, by
// ErrUnavailable. Its tasks have their places in the waitlists, and nothing is reserved for them.
func NoStore() Store { return noStore{} }

// HasStore reports whether there is another store than NoStore.
func (b *buckets) HasStore() bool {
	_, none := b.store.(noStore)
	return !none
}

type noStore struct{}

func (noStore) fault(of string) error {
	return &bucket.UnavailableError{
		Bucket: of, Applied: bucket.AppliedNo, Err: errors.New("this limiter was made with NoStore, and asks no bucket"),
	}
}

func (s noStore) Update(_ context.Context, limit, key string, _ Change) error {
	return s.fault(bucket.Name(limit, key))
}

func (s noStore) Reset(_ context.Context, limit, key string) error {
	return s.fault(bucket.Name(limit, key))
}
