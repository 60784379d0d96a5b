package scheduler

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/headway-go/headway/internal/waitlist"
	"github.com/headway-go/headway/reservations"
)

// refreshBuckets has the buckets of all waitlists follow these limits.
func (s *Scheduler) refreshBuckets(ctx context.Context, limits *reservations.LimitSet) error {
	lists, _, err := s.list.Lists(ctx, "", refreshMost)
	if err != nil {
		return err
	}
	var faults []error
	for _, l := range lists {
		faults = append(faults, s.refreshBucket(ctx, limits, l))
	}
	return errors.Join(faults...)
}

// refreshBucket has one bucket follow its limit. A limit that this process does not know is left alone.
func (s *Scheduler) refreshBucket(ctx context.Context, limits *reservations.LimitSet, l waitlist.List) error {
	var known reservations.Bucket
	c := reservations.ParseBucket(l.Bucket)
	limit, err := limits.Bucket(c)
	if err != nil || json.Unmarshal(l.State, &known) == nil && known.Follows(limit) {
		return nil //nolint:nilerr // see above
	}
	answers, err := s.limiter.Refresh(ctx, c)
	if err != nil {
		return err
	}
	s.Changed(l.Bucket, answers[0])
	return nil
}
