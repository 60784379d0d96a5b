package reservations

import (
	"context"
	"time"
)

// Store keeps the records of buckets: that of package memstore, mongostore or redisstore, or one of your own. A bucket
// is named by a limit, which holds no colon, and a key, which may be empty. Package storetest says whether a store is
// right.
type Store interface {
	// Update passes the record of a bucket to change, and replaces it by what change returns. That is one atomic step: a
	// concurrent caller sees all of it or nothing. A store that compares and swaps calls change again after it lost.
	//
	// After an error of change nothing is written, and Update returns that error. After any other error the record may
	// have been written; Update does not repeat such a write. It returns when ctx is done.
	Update(ctx context.Context, limit, key string, change Change) error
	// Reset forgets the record of a bucket, if there is one: the bucket is full again.
	Reset(ctx context.Context, limit, key string) error
}

// Change is what a Limiter does to a bucket. It is for a Store.
type Change interface {
	// Apply returns the record that follows a record, nil where none is stored. Now is the store's own clock, the same for
	// all its processes; it may run backwards by a minute. The record may be forgotten from keep on. A next that equals
	// the record need not be written, but the record has to be the newest one.
	Apply(record []byte, now time.Time) (next []byte, keep time.Time, err error)
}
