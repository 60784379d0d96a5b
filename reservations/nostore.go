package reservations

import (
	"context"
	"errors"
	"time"

	"github.com/headway-go/headway/internal/bucket"
)

// NoStore is the store of a program that enqueues tasks, knows the limits, and has no buckets at hand: none answers, by
// ErrUnavailable. Its tasks have their places in the waitlists, and nothing is reserved for them.
func NoStore() Store { return noStore{} }

// HasStore reports whether the Limiter has another store than NoStore.
func (l *Limiter) HasStore() bool {
	_, none := l.store.(noStore)
	return !none
}

type noStore struct{}

func (noStore) fault(of string) error {
	return &bucket.UnavailableError{
		Bucket: of, Applied: bucket.AppliedNo, Err: errors.New("this limiter was made with NoStore, and asks no bucket"),
	}
}

func (s noStore) Apply(_ context.Context, limit bucket.Limit, key string, _ []bucket.Request) ([]bucket.Answer, error) {
	return nil, s.fault(bucket.Name(limit.Name, key))
}

func (s noStore) Reset(_ context.Context, limit, key string) error {
	return s.fault(bucket.Name(limit, key))
}

func (s noStore) Load(_ context.Context, limit, key string) (bucket.Bucket, time.Time, error) {
	return bucket.Bucket{}, time.Time{}, s.fault(bucket.Name(limit, key))
}
