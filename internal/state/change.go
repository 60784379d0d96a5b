package state

import (
	"context"
	"fmt"
	"time"

	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/reservations"
)

// Reset makes a bucket full again, and ends its block and its debt. Its waiting tasks start by what it is then.
func (r Reader) Reset(ctx context.Context, at reservations.BucketName) error {
	if err := r.Limiter.Reset(ctx, at.Limit, at.Key); err != nil {
		return err
	}
	outcomes, err := inside.Of(r.Limiter).Refresh(ctx, dispatcher.ChargeOf(at))
	if err != nil {
		return fmt.Errorf("%s is changed, but its waiting tasks could not be moved forward: %w", at, err)
	}
	r.announce(outcomes)
	return nil
}

// Unblock ends the block of a bucket, and returns how long it would have lasted; zero for one that was not blocked.
func (r Reader) Unblock(ctx context.Context, at reservations.BucketName) (left time.Duration, err error) {
	v, err := r.Limiter.View(ctx, at.Limit, at.Key)
	if err != nil {
		return 0, err
	}
	outcomes, err := inside.Of(r.Limiter).Unblock(ctx, at.Limit, at.Key)
	if err != nil {
		return 0, err
	}
	r.announce(outcomes)
	return v.Blocked, nil
}

// announce sends the states of a bucket's shards to the dispatcher, which plans again with them. The scheduler sends
// them soon, or in Stop.
func (r Reader) announce(outcomes []reservations.Outcome) {
	for _, o := range outcomes {
		inside.Of(r.Scheduler).Changed(o)
	}
}
