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
	outcomes, err := askAll(ctx, limits, func(ctx context.Context, limit Limit) (Outcome, error) {
		r := bucket.Request{Op: bucket.OpSync, Tokens: left, For: max(0, seen.Age), Up: seen.Up}
		return l.askOne(ctx, limit.Rules(), c, r)
	})
	return outcomes[0], errors.Join(faults, err)
}
