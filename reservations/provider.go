package reservations

import (
	"cmp"
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
// Only the charge's limit and key count. The error names each meter that the limit does not have and each amount
// that can't be; it matches ErrUnknownMeter or ErrInvalidCharge. The other meters are corrected all the same. A store
// that can't answer is not asked again (ErrUnavailable): the next answer of the provider is newer.
func (l *Limiter) Sync(ctx context.Context, c Charge, seen Observation) (Outcome, error) {
	limits, err := l.starts.each(ctx, c)
	if err != nil {
		return Outcome{}, err
	}
	left := slices.Repeat([]float64{-1}, len(limits[0].Meters)) // negative where it is not known
	faults := c.layOut(seen.Remaining, limits[0].Limit, left)
	if seen.Age > syncAgeMax || !slices.ContainsFunc(left, func(x float64) bool { return x >= 0 }) {
		return Outcome{}, faults
	}
	for k := range left { // each shard has an even part
		left[k] /= float64(len(limits))
	}
	r := bucket.Request{Op: bucket.OpSync, Tokens: left, For: max(0, seen.Age), Up: seen.Up}
	outcomes, err := l.starts.askAll(ctx, limits, c, r)
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
func (b *buckets) Block(ctx context.Context, c Charge, d time.Duration) ([]Outcome, error) {
	limits, err := b.each(ctx, c)
	if err != nil || d <= 0 {
		return nil, err
	}
	end := time.Now().Add(min(d, limits[0].rules().MaxBlock))
	patience, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	outcomes := make([]Outcome, len(limits))
	return outcomes, sideBySide(len(limits), func(i int) error {
		return retry(patience, func(again bool) (err error) {
			r := bucket.Request{Op: bucket.OpBlock, For: d}
			if again {
				r.For = time.Until(end)
			}
			outcomes[i], err = b.askOne(ctx, limits[i].rules(), limits[i].charge(c), r)
			return err
		})
	})
}

// refusePatience is for how long a refusal without a time is sent again to a store that does not answer.
const refusePatience = 10 * time.Second

// Refuse stops the bucket of the charge's limit and key, because its provider refused the call of the charge: see
// RetryAfterError. Waiting tasks keep their order, and what has been started is not stopped. By names the caller, e.g.
// its flow or its task; empty is a caller like any other. At is when the call was granted, Outcome.At of its start;
// zero means after the last refusal. Refusals of calls that were granted before the last refusal are no further ones.
//
// There is one outcome for each shard, first that of the charge's own; its RetryAt says when the caller may go on. It
// is "refused" where the bucket goes on, and the caller alone has to wait. While the store is unavailable Refuse
// keeps trying, as Block does. Errors as for Block.
func (b *buckets) Refuse(
	ctx context.Context, c Charge, refusal *RetryAfterError, by string, at time.Time,
) ([]Outcome, error) {
	limits, err := b.each(ctx, c)
	if err != nil {
		return nil, err
	}
	began, most := time.Now(), limits[0].rules().MaxBlock
	after := min(max(0, refusal.After), most)
	patience, cancel := context.WithTimeout(ctx, cmp.Or(after, min(refusePatience, most)))
	defer cancel()
	outcomes := make([]Outcome, len(limits))
	return outcomes, sideBySide(len(limits), func(i int) error {
		rules := limits[i].rules()
		r := bucket.Request{
			Op: bucket.OpRefuse, Tokens: rules.Vector(c.Tokens), By: caller(by), Began: at, For: after,
			Reason: bucket.Reason(refusal.Reason),
		}
		return retry(patience, func(again bool) (err error) {
			if again && after > 0 {
				r.For = max(1, after-time.Since(began))
			}
			outcomes[i], err = b.askOne(ctx, rules, limits[i].charge(c), r)
			return err
		})
	})
}

// answered says that the call of a charge had a good answer, which ends what Refuse began. By is as for Refuse.
// It sends nothing unless the bucket waits for it: o is the outcome of the start. The outcome is zero where nothing was
// sent. An ErrUnavailable is not repeated: there will be more good answers.
func (b *buckets) answered(ctx context.Context, o Outcome, by string) (Outcome, error) {
	if !o.Bucket.Awaits(caller(by)) {
		return Outcome{}, nil
	}
	outcomes, err := b.askShards(ctx, o.Charge, bucket.Request{Op: bucket.OpAnswered, By: caller(by), Began: o.At})
	if err != nil {
		return Outcome{}, err
	}
	return outcomes[0], nil
}

// caller is what a bucket keeps of the name of a caller.
func caller(by string) int64 { return settlementID("caller " + by) }
