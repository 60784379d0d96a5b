package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations/internal/stored"
)

// errAnswer is matched when a script returned what it never does.
var errAnswer = errors.New("malformed answer")

// state is a bucket as Redis holds it.
type state struct {
	stored.Reading // of Redis's clock

	bucket bucket.Bucket
	header string // empty where there is no bucket
	epoch  string
	blind  bool // this process wrote it, and has not read it since
}

// memoryMost is how many buckets a Store remembers.
const memoryMost = 1024

// remembered is a bucket as this process wrote it last.
type remembered struct {
	state

	steady bool // no other process wrote between its last two swaps
}

// recall returns a bucket that may be swapped without a read, and a moment that Redis's clock has reached.
func (s *Store) recall(name string) (state, bool) {
	last := s.memory.Get(name)
	if s.now != nil {
		last.Clock = s.now()
	} else {
		last.Clock = last.Now()
	}
	last.blind = true
	return last.state, last.steady && last.Fresh()
}

// written is the place that a swap returns which wrote the bucket.
const written = -1

// see reads a bucket.
func (s *Store) see(ctx context.Context, name string) (state, error) {
	seen, _, err := s.run(ctx, loadScript, reading, name)
	return seen, err
}

// swap writes the bucket where it is still as it was seen, and the queue of the bucket lets the call. The clock of
// Redis must have reached the moment. Otherwise it returns the bucket, and the place of the call in the queue.
func (s *Store) swap(
	ctx context.Context, name, call string, seen state, limit bucket.Limit, after bucket.Bucket,
) (state, int64, error) {
	missing := bucket.Bucket{Since: moment(seen.epoch)}
	_, o := bucket.Step(missing, limit, seen.Clock, bucket.Request{Op: bucket.OpRefresh})
	full := bucket.Later(after.KeepUntil(), o.Bucket.KeepUntil()) // without the bucket, less is there
	next, place, err := s.write(ctx, writing, name, seen, call+string(stored.Encode(after)),
		full.Sub(seen.Clock)+keepFull)
	switch {
	case err != nil:
		s.memory.Delete(name)
	case place == written:
		wrote := state{Reading: next.Reading, bucket: after, header: seen.epoch + call, epoch: seen.epoch}
		s.memory.Change(name, func(r *remembered) {
			*r = remembered{state: wrote, steady: r.header != "" && r.header == seen.header}
		})
	}
	return next, place, err
}

// wait waits at a place in the queue of the bucket until the call is the first.
func (s *Store) wait(
	ctx context.Context, name, call string, seen state, place int64, giveUp time.Time,
) (state, error) {
	for time.Now().Before(giveUp) {
		if place == 0 {
			return seen, nil
		}
		next, err := s.call(ctx, reading, "blpop", keyState(call), queueKept.Seconds())
		switch {
		case err == nil && len(next) == 2:
			return s.parse(name, next[1])
		case err != nil && !errors.Is(err, redis.Nil):
			return state{}, &bucket.UnavailableError{Bucket: name, Applied: bucket.AppliedNo, Err: err}
		}
		if seen, place, err = s.write(ctx, reading, name, state{header: noHeader}, call, 0); err != nil {
			return state{}, err
		}
	}
	err := fmt.Errorf("%w: gave up after %v", bucket.ErrContended, s.patience)
	return state{}, &bucket.UnavailableError{Bucket: name, Applied: bucket.AppliedNo, Err: err}
}

// write runs swapScript.
func (s *Store) write(
	ctx context.Context, k kind, name string, seen state, value string, keep time.Duration,
) (state, int64, error) {
	at := int64(0)
	if s.now == nil && !seen.Clock.IsZero() {
		at = seen.Clock.UnixMicro()
	}
	return s.run(ctx, swapScript, k, name,
		seen.header, seen.epoch, value, max(1, keep.Milliseconds()), queueKept.Milliseconds(), root, at, seen.blind)
}

// parse reads a state. The error is one of the bucket.
func (s *Store) parse(name string, answer any) (state, error) {
	text, _ := answer.(string)
	if len(text) < 2*timeSize {
		return state{}, ofBucket(name, fmt.Errorf("%w: %.200q", errAnswer, text))
	}
	seen := state{epoch: text[:timeSize]}
	var err error
	if seen.Reading, err = s.read(name, text[timeSize:2*timeSize]); err != nil {
		return state{}, err
	}
	if value := text[2*timeSize:]; value != "" {
		if len(value) < headerSize {
			return state{}, ofBucket(name, fmt.Errorf("%w: %d bytes, less than a header", stored.ErrMalformed, len(value)))
		}
		seen.header = value[:headerSize]
		if document := bson.Raw(value[headerSize:]); len(document) > 0 { // it is empty after a reset
			if seen.bucket, err = stored.DecodeBucket(document); err != nil {
				return state{}, ofBucket(name, err)
			}
		}
	}
	if seen.header == "" || seen.header[:timeSize] != seen.epoch {
		seen.bucket.Since = moment(seen.epoch)
	}
	return seen, nil
}

// read reads Redis's clock. The error is one of the bucket.
func (s *Store) read(name, text string) (stored.Reading, error) {
	r := stored.Reading{Clock: moment(text), Heard: time.Now()}
	if s.now != nil {
		r.Clock = s.now()
	}
	if r.Clock.IsZero() {
		return r, ofBucket(name, fmt.Errorf("%w: a clock of %.40q", errAnswer, text))
	}
	return r, nil
}

// latest is the first moment of the year 2200, in microseconds: buckets are stored in nanoseconds, which end in 2262.
const latest = 7_258_118_400e6

// moment reads whole microseconds; the zero time if the text is none.
func moment(text string) time.Time {
	us, err := strconv.ParseInt(text, 10, 64)
	if err != nil || us <= 0 || us > latest {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// newCall is the ID of a call.
func newCall() string { return fmt.Sprintf("%016x", rand.Uint64()) } //nolint:gosec // needs no secrecy
