package reservations

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/bounded"
	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/coalesce"
)

const (
	// ResolvedFor is how long an answer of Config.Resolve counts.
	ResolvedFor = 5 * time.Second
	// resolvedMost is how many answers are remembered at once.
	resolvedMost = 10_000
)

// known is the set of limits that has the charge's, without asking Resolve. Nil means that only Resolve may know it.
func (l *Limiter) known(c Charge) (*LimitSet, error) {
	set := l.Limits()
	_, configured := set.configured[c.Limit]
	switch {
	case c.Given == nil && (configured || l.resolved.resolve == nil):
		return set, nil
	case c.Given == nil:
		return l.resolved.find(bucketKey{limit: c.Limit, key: c.Key}, time.Now()), nil
	case configured:
		return nil, c.fault(ErrInvalidCharge, "", "limit %q is configured: the caller must not give another one", c.Limit)
	}
	given := *c.Given
	given.Name = c.Limit
	set, err := newLimitSet([]Limit{given})
	if err != nil {
		return nil, c.fault(fmt.Errorf("%w: %w", ErrInvalidCharge, err), "", "given by the caller")
	}
	return set, nil
}

// limits is the set that has the charge's limit: the limits in force, the limit that the caller gave, or that of
// Resolve.
func (l *Limiter) limits(ctx context.Context, c Charge) (*LimitSet, error) {
	if err := c.validateKey(); err != nil {
		return nil, err
	}
	set, err := l.known(c)
	if set != nil || err != nil {
		return set, err
	}
	sets, err := l.resolved.calls.Do(ctx, bucketKey{limit: c.Limit, key: c.Key}, struct{}{})
	switch {
	case errors.Is(err, ErrUnknownLimit):
		return nil, c.fault(ErrUnknownLimit, "", "%q is not configured, and not resolved: %v", c.Limit, err)
	case err != nil:
		err = fmt.Errorf("resolve limit %q: %w", c.Limit, err)
		return nil, &bucket.UnavailableError{Bucket: c.Bucket(), Applied: bucket.AppliedNo, BucketOnly: true, Err: err}
	}
	return sets[0], nil
}

// limitOf is the charge's limit with overrides. The error matches ErrInvalidCharge where the limit lacks its shard.
func (l *Limiter) limitOf(ctx context.Context, c Charge) (Limit, error) {
	set, err := l.limits(ctx, c)
	if err != nil {
		return Limit{}, err
	}
	limit, err := set.For(c.Limit, c.Key)
	if n := limit.shards(); err == nil && c.Shard != 0 && (n == 1 || c.Shard < 0 || c.Shard > n) {
		return Limit{}, c.shardFault(n)
	}
	return limit, err
}

// shardFault says that a limit of n shards lacks the charge's.
func (c Charge) shardFault(n int) error {
	return c.fault(ErrInvalidCharge, "", "shard %d of limit %q, which has %d; settle Outcome.Charge", c.Shard, c.Limit, n)
}

// LimitFor is the limit of the charge with overrides: a configured one, one given by the caller, or one of
// Config.Resolve. It is as the charge's bucket has it: with the part of the shard that the charge names, and with the
// start of its windows. Errors: ErrUnknownLimit, ErrInvalidCharge, and ErrUnavailable where Resolve fails.
func (l *Limiter) LimitFor(ctx context.Context, c Charge) (Limit, error) {
	limit, err := l.limitOf(ctx, c)
	if err != nil {
		return Limit{}, err
	}
	return limit.forKey(c.Key).shard(c.Shard), nil
}

// bucket is LimitFor of a charge that names its shard, where the limit has Shards.
func (l *Limiter) bucket(ctx context.Context, c Charge) (Limit, error) {
	limit, err := l.LimitFor(ctx, c)
	if n := limit.shards(); n > 1 {
		return Limit{}, c.shardFault(n)
	}
	return limit, err
}

// buckets are the limits of all buckets of the charge, as the store has to see them: see Limit.buckets.
func (l *Limiter) buckets(ctx context.Context, c Charge) ([]Limit, error) {
	limit, err := l.limitOf(ctx, c)
	if err != nil {
		return nil, err
	}
	return limit.buckets(c), nil
}

// resolved are the limits of Config.Resolve: each answer counts for ResolvedFor, and concurrent callers share a call.
// Safe for concurrent use.
type resolved struct {
	resolve func(ctx context.Context, name, key string) (Limit, error) // nil: there is none
	calls   coalesce.Group[bucketKey, struct{}, *LimitSet]
	last    bounded.Map[bucketKey, resolvedLimit]
}

type resolvedLimit struct {
	set   *LimitSet
	until time.Time
}

func (r *resolved) find(at bucketKey, now time.Time) *LimitSet {
	if found := r.last.Get(at); now.Before(found.until) {
		return found.set
	}
	return nil
}

// call asks Resolve, for all callers that wait for this limit and key.
func (r *resolved) call(ctx context.Context, at bucketKey, callers []struct{}) ([]*LimitSet, error) {
	set := r.find(at, time.Now())
	if set == nil {
		limit, err := r.resolve(ctx, at.limit, at.key)
		if err != nil {
			return nil, err
		}
		limit.Name = at.limit
		if set, err = newLimitSet([]Limit{limit}); err != nil {
			return nil, err
		}
		r.last.Change(at, func(l *resolvedLimit) { *l = resolvedLimit{set: set, until: time.Now().Add(ResolvedFor)} })
	}
	return slices.Repeat([]*LimitSet{set}, len(callers)), nil
}
