package reservations

import (
	"context"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/calls/bounded"
	"github.com/headway-go/headway/internal/calls/coalesce"
)

const (
	// resolvedFor is how long an answer of Config.Resolve counts.
	resolvedFor = 5 * time.Second
	// resolvedMost is how many answers are remembered at once.
	resolvedMost = 10_000
)

// resolved are the limits of Config.Resolve: each answer counts for resolvedFor, and concurrent callers share a call.
// Safe for concurrent use.
type resolved struct {
	resolve func(ctx context.Context, name, key string) (Limit, error) // nil: there is none
	calls   coalesce.Group[BucketName, struct{}, *limitSet]
	last    bounded.Map[BucketName, resolvedLimit]
}

type resolvedLimit struct {
	set   *limitSet
	until time.Time
}

func (r *resolved) find(at BucketName, now time.Time) *limitSet {
	if found := r.last.Get(at); now.Before(found.until) {
		return found.set
	}
	return nil
}

// call asks Resolve, for all callers that wait for this limit and key.
func (r *resolved) call(ctx context.Context, at BucketName, callers []struct{}) ([]*limitSet, error) {
	set := r.find(at, time.Now())
	if set == nil {
		limit, err := r.resolve(ctx, at.Limit, at.Key)
		if err != nil {
			return nil, err
		}
		limit.Name = at.Limit
		if set, err = newLimitSet([]Limit{limit}); err != nil {
			return nil, err
		}
		r.last.Change(at, func(l *resolvedLimit) { *l = resolvedLimit{set: set, until: time.Now().Add(resolvedFor)} })
	}
	return slices.Repeat([]*limitSet{set}, len(callers)), nil
}
