package reservations

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headway-go/headway/internal/bucket"
)

// limits are the limits that a Limiter knows: configured ones with their overrides, budgets of keys, limits of
// Config.Resolve, and one that a caller gives with its charge. Safe for concurrent use.
type limits struct {
	set      atomic.Pointer[limitSet] // each call reads it once
	changing sync.Mutex               // of set: one change at a time; guards watchers
	watchers map[*func()]bool
	resolved resolved
}

func newLimits(set *limitSet, config Config) *limits {
	l := &limits{watchers: map[*func()]bool{}}
	l.set.Store(set)
	l.resolved.resolve, l.resolved.last.Most = config.Resolve, resolvedMost
	l.resolved.calls.Call, l.resolved.calls.Timeout = l.resolved.call, config.CallTimeout
	return l
}

// Limits are the limits in force at this moment.
func (l *limits) Limits() *limitSet { return l.set.Load() }

// OnChange calls f after each change of the limits, until stop is called. F must not change them.
func (l *limits) OnChange(f func()) (stop func()) {
	l.changing.Lock()
	defer l.changing.Unlock()
	l.watchers[&f] = true
	return func() {
		l.changing.Lock()
		defer l.changing.Unlock()
		delete(l.watchers, &f)
	}
}

// replace puts a set in force. The caller holds changing.
func (l *limits) replace(next *limitSet) {
	l.set.Store(next)
	for f := range l.watchers {
		(*f)()
	}
}

// known is the set of limits that has the charge's, without asking Resolve. Nil means that only Resolve may know it.
func (l *limits) known(c Charge) (*limitSet, error) {
	set := l.set.Load()
	_, configured := set.configured[c.Limit]
	switch {
	case c.Given == nil && c.Limit == bucket.BudgetLimit && !configured:
		return budget(c)
	case c.Given == nil && (configured || l.resolved.resolve == nil):
		return set, nil
	case c.Given == nil:
		return l.resolved.find(c.whole(), time.Now()), nil
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

// budget is the limit of the budget of a key of the gateway, which the name of its bucket says.
func budget(c Charge) (*limitSet, error) {
	b, ok := bucket.BudgetOf(c.Key)
	if ok {
		set, err := newLimitSet([]Limit{{Name: c.Limit, Meters: []Meter{
			{Name: b.Unit, Rate: b.Amount, Period: b.Period, Capacity: b.Amount},
		}}})
		if err == nil {
			return set, nil
		}
	}
	return nil, c.fault(ErrUnknownLimit, "", "%q is no budget of a key", c.Key)
}

// having is the set that has the charge's limit: the limits in force, the limit that the caller gave, or that of
// Resolve. Here the charge's names are checked, once for each call of the Limiter.
func (l *limits) having(ctx context.Context, c Charge) (*limitSet, error) {
	if err := c.validateNames(); err != nil {
		return nil, err
	}
	set, err := l.known(c)
	if set != nil || err != nil {
		return set, err
	}
	sets, err := l.resolved.calls.Do(ctx, c.whole(), struct{}{})
	switch {
	case errors.Is(err, ErrUnknownLimit):
		return nil, c.fault(ErrUnknownLimit, "", "%q is not configured, and not resolved: %v", c.Limit, err)
	case err != nil:
		err = fmt.Errorf("resolve limit %q: %w", c.Limit, err)
		return nil, &bucket.UnavailableError{
			Bucket: c.Bucket().String(), Applied: bucket.AppliedNo, BucketOnly: true, Err: err,
		}
	}
	return sets[0], nil
}

// limitOf is the charge's limit with overrides. The error matches ErrInvalidCharge where the limit lacks its shard.
func (l *limits) limitOf(ctx context.Context, c Charge) (Limit, error) {
	set, err := l.having(ctx, c)
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
func (l *limits) LimitFor(ctx context.Context, c Charge) (Limit, error) {
	limit, err := l.limitOf(ctx, c)
	if err != nil {
		return Limit{}, err
	}
	return limit.forKey(c.Key).shard(c.Shard), nil
}

// bucket is LimitFor of a charge that names its shard, where the limit has Shards.
func (l *limits) bucket(ctx context.Context, c Charge) (Limit, error) {
	limit, err := l.LimitFor(ctx, c)
	if n := limit.shards(); n > 1 {
		return Limit{}, c.shardFault(n)
	}
	return limit, err
}

// each returns the limits of all buckets of the charge, as the store has to see them: see Limit.buckets.
func (l *limits) each(ctx context.Context, c Charge) ([]ofBucket, error) {
	limit, err := l.limitOf(ctx, c)
	if err != nil {
		return nil, err
	}
	return limit.buckets(c), nil
}

// servable is Validate with any priority, for a charge whose names are good. It returns the limit; a zero one where
// only Resolve may know it.
func (l *limits) servable(c Charge) (Limit, error) {
	set, err := l.known(c)
	if err != nil || set == nil {
		return Limit{}, err
	}
	limit, err := set.serving(c)
	if err == nil {
		err = c.validateWhole(limit)
	}
	return limit, err
}
