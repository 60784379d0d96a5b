package bucket

import (
	"errors"
	"fmt"
)

var (
	// ErrUnavailable is matched when the store could not answer.
	ErrUnavailable = errors.New("reservations: store unavailable")
	// ErrBucket is matched when the store answers and only this bucket can't be asked.
	ErrBucket = errors.New("reservations: bucket unavailable")
	// ErrContended is matched when a store gave up after too many conflicts with other writers.
	ErrContended = errors.New("reservations: too many conflicts")
)

// UnavailableError says that the store could not answer for a bucket. It matches ErrUnavailable.
type UnavailableError struct {
	// Bucket is the name of the bucket that was asked for.
	Bucket string
	// Applied says what is known of the request: whether it may have been applied although no answer came.
	Applied Applied
	// BucketOnly says that the fault is one of this bucket, not of the store: the error matches ErrBucket.
	BucketOnly bool
	Err        error
}

// Applied says whether a request without an answer may have changed the bucket.
type Applied string

const (
	// AppliedNo means that the request certainly changed nothing; asking again is safe.
	AppliedNo Applied = "no"
	// AppliedMaybe means that the answer was lost on its way. The zero value means the same.
	AppliedMaybe Applied = "maybe"
)

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("bucket %s: %v: %v", e.Bucket, ErrUnavailable, e.Err)
}

// Unwrap returns the store's own error.
func (e *UnavailableError) Unwrap() error { return e.Err }

// Is makes the error match ErrUnavailable, and ErrBucket where only this bucket can't be asked.
func (e *UnavailableError) Is(target error) bool {
	return target == ErrUnavailable || target == ErrBucket && (e.BucketOnly || errors.Is(e.Err, ErrContended))
}
