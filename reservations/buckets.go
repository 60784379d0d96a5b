package reservations

import (
	"context"
	"errors"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/calls/coalesce"
)

// buckets asks the store for the buckets of limits, and shares round trips between callers that ask for the same one.
// Its exported methods are for package worker, the dispatcher and tests: see package inside. Safe for concurrent use.
type buckets struct {
	*limits

	store   Store
	timeout time.Duration // of one call to the store
	calls   coalesce.Group[BucketName, asked, bucket.Answer]
	seen    shardAnswers
	halted  atomic.Pointer[error] // the cause of Halt; nil: the store is asked
}

// asked is a request with the limit that lays out its tokens.
type asked struct {
	limit   bucket.Limit
	request bucket.Request
}

func newBuckets(store Store, known *limits, timeout time.Duration) *buckets {
	b := &buckets{limits: known, store: store, timeout: timeout}
	b.calls.Call, b.calls.Timeout = b.call, timeout
	b.calls.Same = func(a, b asked) bool { return reflect.DeepEqual(a.limit, b.limit) }
	b.seen.taken.Most = seenMost
	return b
}

// askShards asks all buckets of the charge's limit and key, first that of its shard.
func (b *buckets) askShards(ctx context.Context, c Charge, r bucket.Request) ([]Outcome, error) {
	limits, err := b.each(ctx, c)
	if err != nil {
		return nil, err
	}
	return b.askAll(ctx, limits, c, r)
}

// askAll asks all buckets side by side. The outcomes are in the order of limits, zero where there is none; the error
// joins all.
func (b *buckets) askAll(ctx context.Context, limits []ofBucket, c Charge, r bucket.Request) ([]Outcome, error) {
	outcomes := make([]Outcome, len(limits))
	return outcomes, sideBySide(len(limits), func(i int) (err error) {
		outcomes[i], err = b.askOne(ctx, limits[i].rules(), limits[i].charge(c), r)
		return err
	})
}

// one asks the bucket of a charge, and before that what else there is to ask of it.
func (b *buckets) one(ctx context.Context, c Charge, r bucket.Request, before ...bucket.Request) (Outcome, error) {
	set, err := b.having(ctx, c)
	if err != nil {
		return Outcome{}, err
	}
	limit, err := set.serving(c)
	if err == nil && (r.Op == bucket.OpStart || r.Op == bucket.OpAllow) {
		err = c.validateWhole(limit)
	}
	if err != nil {
		return Outcome{}, err
	}
	c = b.choose(limit, c)
	rules := limit.forKey(c.Key).shard(c.Shard).rules()
	if r.Op == bucket.OpAllow {
		if err = c.validateAtOnce(rules); err != nil {
			return Outcome{}, err
		}
	}
	r.Tokens, r.Urgent, r.Lease = rules.Vector(c.Tokens), c.Urgent, c.Lease
	return b.askOne(ctx, rules, c, r, before...)
}

// askOne sends one request for a charge that names its shard, behind others.
func (b *buckets) askOne(
	ctx context.Context, limit bucket.Limit, c Charge, r bucket.Request, before ...bucket.Request,
) (Outcome, error) {
	r, leaseEnd := leased(limit, r)
	answers, err := b.ask(ctx, c.Bucket(), limit, append(before, r)...)
	if err != nil {
		return Outcome{}, err
	}
	o := outcome(answers[len(before)], c)
	o.Charge.Lease, o.Charge.LeaseEnd = 0, time.Time{}
	if o.Started() && !r.Dry && !leaseEnd.IsZero() {
		o.Charge.Lease, o.Charge.LeaseEnd = r.Lease, leaseEnd
	}
	return o, nil
}

// ask sends requests to a bucket together with the requests of other callers.
func (b *buckets) ask(
	ctx context.Context, at BucketName, limit bucket.Limit, requests ...bucket.Request,
) ([]bucket.Answer, error) {
	together := make([]asked, len(requests))
	for i, r := range requests {
		together[i] = asked{limit: limit, request: r}
	}
	answers, err := b.calls.Do(ctx, at, together...)
	if err != nil && !errors.Is(err, ErrUnavailable) { // ctx ended while the call was under way, or the store panicked
		err = &bucket.UnavailableError{Bucket: at.String(), Applied: bucket.AppliedMaybe, Err: err}
	}
	if last := len(requests) - 1; at.Shard != 0 && newcomer(requests[last]) {
		var wait time.Duration // nothing is known after an error
		if err == nil {
			wait = answers[last].Wait()
		}
		b.seen.note(at, wait)
	}
	return answers, err
}

// call makes one round trip for all requests that gathered.
func (b *buckets) call(ctx context.Context, at BucketName, all []asked) ([]bucket.Answer, error) {
	if err := b.haltedError(at); err != nil {
		return nil, err
	}
	requests := make([]bucket.Request, len(all))
	for i, a := range all {
		requests[i] = a.request
	}
	return bucket.Apply(ctx, b.store, all[0].limit, at.Key, requests)
}
