package reservations

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/bucket"
)

// syncAgeMax is the age above which an Observation is ignored.
const syncAgeMax = time.Hour

// Observation is what a provider says of its own balance.
type Observation struct {
	// Remaining is what was left of each meter. A meter that is not named is not known.
	Remaining Tokens
	// Age is how long ago the request was sent whose answer named Remaining. What came back since then is added to
	// Remaining, so that the sum is the most that can be left. Negative counts as zero, and above an hour the
	// observation is ignored.
	Age time.Duration
	// Up lets the balance rise as well, e.g. where other programs gave up what they had reserved. Without Up the bucket
	// is only corrected downwards: the provider's balance does not yet lack calls that are on their way.
	Up bool
}

// Sync corrects the bucket by what its provider says is left: if the bucket holds more, the difference is taken. The
// outcome is zero where the observation names nothing. Where the limit has Shards, each shard gets an even part, and
// the outcome is that of the charge's own.
//
// Only the charge's limit, key and shard count. The error names each meter that the limit does not have and each amount
// that can't be; it matches as for Start. The other meters are corrected all the same. An ErrUnavailable is not
// repeated: the next answer of the provider is newer.
func (l *Limiter) Sync(ctx context.Context, c Charge, seen Observation) (Outcome, error) {
	limits, err := l.buckets(ctx, c)
	if err != nil {
		return Outcome{}, err
	}
	left := slices.Repeat([]float64{-1}, len(limits[0].Meters)) // negative where it is not known
	faults := c.layOut(seen.Remaining, limits[0], left)
	if seen.Age > syncAgeMax || !slices.ContainsFunc(left, func(x float64) bool { return x >= 0 }) {
		return Outcome{}, faults
	}
	for k := range left { // each shard has an even part
		left[k] /= float64(len(limits))
	}
	r := bucket.Request{Op: bucket.OpSync, Tokens: left, For: max(0, seen.Age), Up: seen.Up}
	outcomes, err := l.askAll(ctx, limits, c, r)
	return outcomes[0], errors.Join(faults, err)
}

// Block lets nothing start in the bucket of the charge's limit and key for d, counted from the store's answer: a
// provider refused a call and named a time. Waiting tasks keep their order. What has been started is not stopped. D is
// cut to the limit's max_block. A block inside a longer one changes nothing. There is one outcome for each shard, first
// that of the charge's own; its RetryAt says when the block in force ends. Zero and less do nothing, and then there is
// no outcome.
//
// While the store is unavailable Block keeps trying for what is left of d, with growing pauses, until ctx ends: to
// block twice does no harm. Errors: ErrUnknownLimit, ErrUnavailable.
func (l *Limiter) Block(ctx context.Context, c Charge, d time.Duration) ([]Outcome, error) {
	limits, err := l.buckets(ctx, c)
	if err != nil || d <= 0 {
		return nil, err
	}
	end := time.Now().Add(min(d, limits[0].Rules().MaxBlock))
	patience, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	outcomes := make([]Outcome, len(limits))
	return outcomes, sideBySide(len(limits), func(i int) error {
		return retry(patience, func(again bool) (err error) {
			r := bucket.Request{Op: bucket.OpBlock, For: d}
			if again {
				r.For = time.Until(end)
			}
			outcomes[i], err = l.askOne(ctx, limits[i].Rules(), c, r)
			return err
		})
	})
}
