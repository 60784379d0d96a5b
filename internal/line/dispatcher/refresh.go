package dispatcher

import (
	"context"
	"encoding/json"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/reservations"
)

// refresh has the buckets of the waitlists follow the limits where these have changed, so that waiting tasks start
// by the new ones. Only the dispatcher on duty does so, in the background: the store may be away.
func (d *promoter) refresh(ctx context.Context) {
	if d.s.limiter == nil || !d.behind.Swap(false) {
		return
	}
	d.s.after(ctx, "not all waitlists follow the changed limits yet", func(ctx context.Context) error {
		err := d.refreshBuckets(ctx)
		if err != nil {
			d.behind.Store(true)
		}
		return err
	})
}

// refreshBuckets has the buckets of all waitlists follow the limits. It ends where the store is away.
func (d *promoter) refreshBuckets(ctx context.Context) error {
	lists, _, err := d.s.list.Lists(ctx, "", refreshMost)
	if err != nil {
		return err
	}
	for _, l := range lists {
		if err := d.refreshBucket(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

// refreshBucket has one bucket follow its limit. A limit that this process does not know is left alone. A bucket that
// alone can't be asked follows when it answers one of its tasks.
func (d *promoter) refreshBucket(ctx context.Context, l waitlist.List) error {
	var known bucket.Bucket
	at, err := reservations.ParseBucket(l.Bucket)
	if err != nil || l.Faulty {
		return nil //nolint:nilerr // see above
	}
	if _, err = inside.Of(d.s.limiter).Limits().For(at.Limit, at.Key); err != nil {
		return nil //nolint:nilerr // see above
	}
	c := ChargeOf(at)
	limit, err := inside.Of(d.s.limiter).LimitFor(ctx, c)
	if err != nil || limit.Shards > 1 || json.Unmarshal(l.State, &known) == nil && known.Follows(bucket.Rules(limit)) {
		return nil //nolint:nilerr // see above
	}
	answers, err := inside.Of(d.s.limiter).Refresh(ctx, c)
	if isFault(err) {
		d.s.fail(ctx, at, err)
		return nil
	}
	if err != nil {
		return err
	}
	d.s.Changed(answers[0])
	return nil
}
