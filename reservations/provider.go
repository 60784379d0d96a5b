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

// Refusal is a call that a provider refused.
type Refusal struct {
	// After is how long the provider asks to wait. Zero and less name no time.
	After time.Duration
	// Reason is why; empty means ReasonLimit.
	Reason Reason
	// By names the caller, e.g. its flow or its task. Empty is a caller like any other.
	By string
	// At is when the call was granted: Outcome.At of its start. Zero means after the last refusal.
	At time.Time
}

// refusePatience is for how long a refusal without a time is sent again to a store that does not answer.
const refusePatience = 10 * time.Second

// Refuse stops the bucket of the charge's limit and key, because its provider refused the call of the charge. Waiting
// tasks keep their order, and what has been started is not stopped.
//
// A refusal that names a time stops the bucket for that time. Any other pauses it for a second and more, for a quota or
// a key for 15. Each refusal in a row doubles that. Until a call has a good answer (Answered), starts are as far
// apart. Each refusal lowers the rates of adaptive meters. Refusals of calls that were granted before the last
// refusal are no further ones.
//
// The refusals of one caller stop the bucket for the limit's max_block in all, until the caller has a good answer. With
// each other caller that was refused and has none yet, that is half as long. Beyond that the outcome is StateRefused:
// the bucket goes on, and the caller alone has to wait. A quota or key that other callers can use stops no bucket
// either.
//
// There is one outcome for each shard, first that of the charge's own; its RetryAt says when the caller may go on.
// While the store is unavailable Refuse keeps trying, as Block does. Errors as for Block.
func (l *Limiter) Refuse(ctx context.Context, c Charge, refusal Refusal) ([]Outcome, error) {
	limits, err := l.buckets(ctx, c)
	if err != nil {
		return nil, err
	}
	began, most := time.Now(), limits[0].Rules().MaxBlock
	after := min(max(0, refusal.After), most)
	patience, cancel := context.WithTimeout(ctx, cmp.Or(after, min(refusePatience, most)))
	defer cancel()
	outcomes := make([]Outcome, len(limits))
	return outcomes, sideBySide(len(limits), func(i int) error {
		rules := limits[i].Rules()
		r := bucket.Request{
			Op: bucket.OpRefuse, Tokens: rules.Vector(c.Tokens), By: caller(refusal.By), Began: refusal.At, For: after,
			Reason: refusal.Reason,
		}
		return retry(patience, func(again bool) (err error) {
			if again && after > 0 {
				r.For = max(1, after-time.Since(began))
			}
			outcomes[i], err = l.askOne(ctx, rules, c, r)
			return err
		})
	})
}

// Answered says that the call of a charge had a good answer, which ends what Refuse began. By and at are as in Refusal.
// It sends nothing unless the bucket waits for it: o is the outcome of the start. The outcome is zero where nothing was
// sent. An ErrUnavailable is not repeated: there will be more good answers.
func (l *Limiter) Answered(ctx context.Context, o Outcome, by string) (Outcome, error) {
	if !o.Bucket.Awaits(caller(by)) {
		return Outcome{}, nil
	}
	outcomes, err := l.askShards(ctx, o.Charge, bucket.Request{Op: bucket.OpAnswered, By: caller(by), Began: o.At})
	if err != nil {
		return Outcome{}, err
	}
	return outcomes[0], nil
}

// caller is what a bucket keeps of the name of a caller.
func caller(by string) int64 { return settlementID("caller " + by) }
