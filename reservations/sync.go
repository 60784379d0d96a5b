package reservations

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"time"
)

// syncAgeMax is the age above which an Observation says nothing any more.
const syncAgeMax = time.Hour

// Observation is what a provider said of its own balance.
type Observation struct {
	// Remaining is what was left of each meter. A meter that is not named is not known.
	Remaining Tokens
	// Age is how long ago the request was sent that brought the answer. What came back since then is added to Remaining, so that the sum is the most that
	// can be there. Negative counts as zero, and above an hour the observation is ignored.
	Age time.Duration
	// Up lets the balance rise as well, e.g. where other programs gave up what they had reserved. Without it the bucket is only corrected
	// downwards: calls that are still on their way are not in the provider's balance yet.
	Up bool
}

// Sync corrects the bucket by what its provider says is left: where the bucket believes that more is there, the difference is taken. As with a settlement, those
// who wait are set back, in their order and without a delivery, by what the bucket owes after it: hand the outcome, which carries the shift, to
// whatever wakes them. Where nothing is owed they keep their times, and whoever then finds too little is late once.
// The outcome is zero when there was nothing to say. Where the limit has shards, all of them are told, and it is that of the charge's own.
//
// Only the charge's limit, key and shard count. A meter that the limit does not have, and an amount that can't be, is named in the error, which matches as for Begin;
// the other meters are corrected all the same. An ErrUnavailable is not repeated: the next answer of the provider brings newer news.
func (l *Limiter) Sync(ctx context.Context, c Charge, seen Observation) (Outcome, error) {
	limits, err := l.Limits().buckets(c)
	if err != nil {
		return Outcome{}, err
	}
	left, faults := c.remaining(limits[0], seen.Remaining)
	if seen.Age > syncAgeMax || !slices.ContainsFunc(left, func(x float64) bool { return x >= 0 }) {
		return Outcome{}, faults
	}
	for k := range left { // each shard has an even part
		left[k] /= float64(len(limits))
	}
	outcomes, err := askAll(ctx, limits, func(ctx context.Context, limit Limit) (Outcome, error) {
		return l.askOne(ctx, limit, c.Key, Request{Op: OpSync, Tokens: left, For: max(0, seen.Age), Up: seen.Up})
	})
	return outcomes[0], errors.Join(faults, err)
}

// remaining lays out what is left in the order of the limit's meters, negative where it is not known. What can't be is left out, and the error names it.
func (c Charge) remaining(l Limit, of Tokens) ([]float64, error) {
	left := slices.Repeat([]float64{-1}, len(l.Meters))
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(of)) {
		one := Charge{Limit: c.Limit, Key: c.Key, Tokens: Tokens{name: of[name]}}
		if err := one.validateUse(l); err != nil {
			faults = append(faults, err)
			continue
		}
		left[slices.IndexFunc(l.Meters, func(m Meter) bool { return m.Name == name })] = math.Abs(of[name]) // no negative zero
	}
	return left, errors.Join(faults...)
}
