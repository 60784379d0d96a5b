package mongostore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/reservations"
)

// A bucket that only this process uses is decided here, by reservations.Step, and written in one compare-and-swap: the server stores
// the outcome if the bucket is still as this process left it, which costs it half of a lone pipeline, and a tenth of one with 64 requests.
// If it is not, nothing was changed, and the pipeline decides. The server's clock stays the only one: see known.now.

const (
	// fieldClock is what the server's clock said at the last swap. Nothing is decided by it but the next swap of the process that reads it in the answer.
	fieldClock = "clock"
	fieldLed   = "led"
	// clockKept is how long a reading of the server's clock is carried on by this machine's.
	clockKept = time.Second
	// driftsBy is one over the drift between two clocks that is allowed for: 1 ms in a second, twice what a clock is slewed by.
	driftsBy = 1000
)

// swapping says when a call may be a swap. Tests set it; production has adaptive.
type swapping int

const (
	swapAdaptive swapping = iota // where it is likely to match
	swapAlways                   // wherever the state and the clock are known
	swapNever
)

// swap decides the requests at now and writes that, if the bucket is still what before says; after is what is known then. No outcomes: it is not, and
// nothing was changed.
func (s *Store) swap(
	ctx context.Context, name string, before known, now time.Time, limit reservations.Limit, requests []reservations.Request,
) (outcomes []reservations.Outcome, after known, err error) {
	bucket, decided := before.bucket, make([]reservations.Outcome, len(requests))
	for i, r := range requests {
		bucket, decided[i] = reservations.Step(bucket, limit, now, r)
	}
	written, err := bson.Marshal(append(encodeBucket(bucket, limit), to("out", bson.A{})))
	if err != nil {
		return nil, known{}, &reservations.UnavailableError{Bucket: name, Applied: reservations.AppliedNo, Err: fmt.Errorf("encode bucket: %w", err)}
	}
	update := bson.D{to("$set", bson.Raw(written))}
	if s.local == nil {
		update = append(update, to("$currentDate", bson.D{to(fieldClock, true)}))
	}
	if gone := dropped(before.bucket, bucket); len(gone) > 0 {
		update = append(update, to("$unset", gone))
	}
	answer := options.FindOneAndUpdate().SetReturnDocument(options.After).SetProjection(bson.D{to("_id", 0), to(fieldClock, 1)})
	var raw bson.Raw
	err = s.attempt(ctx, name, func(ctx context.Context) error {
		var failed error
		raw, failed = s.buckets.FindOneAndUpdate(ctx, before.filter(name), update, answer).Raw()
		if errors.Is(failed, mongo.ErrNoDocuments) {
			return nil
		}
		return failed
	})
	if err != nil || raw == nil {
		return nil, known{}, err
	}
	after = known{bucket: bucket, led: bson.Raw(written).Lookup(fieldLed), steady: true}
	if ms, ok := raw.Lookup(fieldClock).DateTimeOK(); ok {
		after.clock, after.heard = time.UnixMilli(ms), time.Now()
	}
	return decided, after, nil
}

// dropped is the fields that a bucket had before, and has no more.
func dropped(before, after reservations.Bucket) (fields bson.D) {
	if len(before.Idle) > 0 && len(after.Idle) == 0 {
		fields = append(fields, to("idle", 0), to("keep", 0))
	}
	if len(before.Express) > 0 && len(after.Express) == 0 {
		fields = append(fields, to("express", 0))
	}
	return fields
}

// known is what this process knows of a bucket from its last call: a value that never changes.
type known struct {
	bucket reservations.Bucket
	led    bson.RawValue // the ledgers as they are stored
	// steady is set where nobody else wrote between the last two calls.
	steady bool
	// clock is a reading of the server's clock, and heard when its answer came, on this machine's. Zero where there is none.
	clock, heard time.Time
}

// filter finds the bucket if it is as it is known. The version alone tells, as long as the bucket is not deleted and made anew in the
// millisecond in which it was made; the ledgers tell even then.
func (k known) filter(name string) bson.D {
	f := bson.D{
		to("_id", name), to("gen", k.bucket.Generation), to("v", k.bucket.Version), to(fieldAt, bson.NewDateTimeFromTime(k.bucket.At)),
	}
	if k.led.Type != 0 {
		f = append(f, to(fieldLed, k.led))
	}
	return f
}

// now is a moment that the server's clock has reached: its last reading and the time that went by here since that arrived, which is
// later than it was made. It is behind by the way of that answer, the drift that is allowed for, and up to a millisecond, so it grants a little
// less than the server's own. It does not fall behind further, as each swap reads the clock again. False where no reading is young enough.
func (k known) now() (time.Time, bool) {
	if k.clock.IsZero() {
		return time.Time{}, false
	}
	passed := time.Since(k.heard)
	if passed < 0 || passed > clockKept {
		return time.Time{}, false
	}
	return k.clock.Add(passed - passed/driftsBy).Truncate(time.Millisecond), true
}

// then is what is known after a pipeline with n requests has left the bucket as after says; ok where k was known before.
func (k known) then(ok bool, after reservations.Bucket, led bson.RawValue, n int) known {
	led.Value = bytes.Clone(led.Value) // not the whole answer
	next := known{bucket: after, led: led, clock: k.clock, heard: k.heard}
	next.steady = ok && after.Generation == k.bucket.Generation && after.Version == k.bucket.Version+int64(n)
	if next.steady && !after.At.Equal(k.bucket.At) { // at was moved to the server's clock; else that may be behind it
		next.clock, next.heard = after.At, time.Now()
	}
	return next
}
