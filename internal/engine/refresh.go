package engine

import (
	"context"
	"encoding/json"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/waitlist"
	"github.com/headway-go/headway/reservations"
)

// refreshBuckets has the buckets of all waitlists follow these limits. It ends where the store is away.
func (s *Engine) refreshBuckets(ctx context.Context, limits *reservations.LimitSet) error {
	lists, _, err := s.list.Lists(ctx, "", refreshMost)
	if err != nil {
		return err
	}
	for _, l := range lists {
		if err := s.refreshBucket(ctx, limits, l); err != nil {
			return err
		}
	}
	return nil
}

// refreshBucket has one bucket follow its limit. A limit that this process does not know is left alone. A bucket that
// alone can't be asked follows when it answers one of its tasks.
func (s *Engine) refreshBucket(ctx context.Context, limits *reservations.LimitSet, l waitlist.List) error {
	var known bucket.Bucket
	c := reservations.ParseBucket(l.Bucket)
	if _, err := limits.For(c.Limit, c.Key); err != nil || l.Faulty {
		return nil //nolint:nilerr // see above
	}
	limit, err := s.limiter.LimitFor(ctx, c)
	if err != nil || limit.Shards > 1 || json.Unmarshal(l.State, &known) == nil && known.Follows(limit.Rules()) {
		return nil //nolint:nilerr // see above
	}
	answers, err := s.limiter.Refresh(ctx, c)
	if isFault(err) {
		s.fail(ctx, l.Bucket, err)
		return nil
	}
	if err != nil {
		return err
	}
	s.Changed(l.Bucket, answers[0])
	return nil
}
