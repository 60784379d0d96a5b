package bucket

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"time"
)

// Change is what requests make of one bucket. Without requests the bucket is only read. It is a reservations.Change.
//
// Headway's stores take the requests and set the answers. A store outside of Headway calls Apply with the record that
// it has, and knows nothing of buckets.
type Change struct {
	Limit    Limit
	Key      string
	Requests []Request

	// Answers has one answer for each request. A Change without requests has the Bucket, and Now on the store's clock.
	Answers []Answer
	Bucket  Bucket
	Now     time.Time

	called bool  // a store has begun with it
	fault  error // of the last call
}

// errRecord is matched where a store returned a record that Apply did not make.
var errRecord = errors.New("malformed record")

// Apply implements reservations.Change.
func (c *Change) Apply(record []byte, now time.Time) (next []byte, keep time.Time, err error) {
	c.called = true
	before, err := decode(record)
	if c.fault = err; err != nil {
		return nil, time.Time{}, err
	}
	after := before
	if c.Answers, c.Bucket, c.Now = nil, before, now; len(c.Requests) > 0 {
		after, c.Answers = Fold(before, c.Limit, now, c.Requests)
	}
	if after.Version == before.Version {
		return record, before.KeepUntil(), nil
	}
	after.Since = time.Time{}
	var encoded bytes.Buffer
	if err = gob.NewEncoder(&encoded).Encode(after); err != nil {
		return nil, time.Time{}, fmt.Errorf("encode the record: %w", err)
	}
	return encoded.Bytes(), after.KeepUntil(), nil
}

func decode(record []byte) (b Bucket, err error) {
	if record == nil {
		return b, nil
	}
	if err = gob.NewDecoder(bytes.NewReader(record)).Decode(&b); err != nil {
		return Bucket{}, fmt.Errorf("%w: %w", errRecord, err)
	}
	if b.Version <= 0 || len(b.Meters) == 0 {
		return Bucket{}, fmt.Errorf("%w: the version or all meters are missing", errRecord)
	}
	return b, nil
}

// unavailable is the error of a store as an UnavailableError.
func (c *Change) unavailable(err error) error {
	if _, ok := errors.AsType[*UnavailableError](err); err == nil || ok {
		return err
	}
	u := &UnavailableError{Bucket: Name(c.Limit.Name, c.Key), Applied: AppliedMaybe, Err: err}
	if u.BucketOnly = c.fault != nil; !c.called || u.BucketOnly {
		u.Applied = AppliedNo // nothing was there to be written
	}
	return u
}

// Unavailable is the error of a store as an UnavailableError. Nil stays nil.
func Unavailable(limit, key string, err error) error {
	if _, ok := errors.AsType[*UnavailableError](err); err == nil || ok {
		return err
	}
	return &UnavailableError{Bucket: Name(limit, key), Err: err}
}

// Updater is a reservations.Store. C is a reservations.Change, which this package can't name.
type Updater[C any] interface {
	Update(ctx context.Context, limit, key string, change C) error
}

// Apply sends requests to a bucket. It returns one answer for each. The error is an UnavailableError.
func Apply[C any](ctx context.Context, s Updater[C], limit Limit, key string, requests []Request) ([]Answer, error) {
	c := &Change{Limit: limit, Key: key, Requests: requests}
	if err := update(ctx, s, c); err != nil {
		return nil, err
	}
	return c.Answers, nil
}

// Read reads a bucket, and the store's clock. A zero At means that none is stored. The error is as for Apply.
func Read[C any](ctx context.Context, s Updater[C], limit, key string) (Bucket, time.Time, error) {
	c := &Change{Limit: Limit{Name: limit}, Key: key}
	err := update(ctx, s, c)
	return c.Bucket, c.Now, err
}

func update[C any](ctx context.Context, s Updater[C], c *Change) error {
	change, _ := any(c).(C)
	err := s.Update(ctx, c.Limit.Name, c.Key, change)
	if err == nil && len(c.Answers) != len(c.Requests) {
		err = fmt.Errorf("%T returned without calling change.Apply", s)
	}
	return c.unavailable(err)
}

// Serve makes a change by apply, or by load where it has no requests.
func Serve(
	ctx context.Context, change any, apply func(context.Context, Limit, string, []Request) ([]Answer, error),
	load func(ctx context.Context, limit, key string) (Bucket, time.Time, error),
) (err error) {
	c, ok := change.(*Change)
	if !ok {
		return fmt.Errorf("%T is no change of a Limiter", change)
	}
	c.called = true
	if len(c.Requests) == 0 {
		c.Bucket, c.Now, err = load(ctx, c.Limit.Name, c.Key)
		return err
	}
	c.Answers, err = apply(ctx, c.Limit, c.Key, c.Requests)
	return err
}

// Applier returns Apply for a store.
func Applier[C any](s Updater[C]) func(context.Context, Limit, string, []Request) ([]Answer, error) {
	return func(ctx context.Context, limit Limit, key string, requests []Request) ([]Answer, error) {
		return Apply(ctx, s, limit, key, requests)
	}
}

// Loader returns Read for a store.
func Loader[C any](s Updater[C]) func(ctx context.Context, limit, key string) (Bucket, time.Time, error) {
	return func(ctx context.Context, limit, key string) (Bucket, time.Time, error) {
		return Read(ctx, s, limit, key)
	}
}
