package reservations

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/pause"
)

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
	return askAll(ctx, limits, func(ctx context.Context, limit Limit) (Outcome, error) {
		return l.blockOne(ctx, limit, c, d)
	})
}

func (l *Limiter) blockOne(ctx context.Context, known Limit, c Charge, d time.Duration) (Outcome, error) {
	end := time.Now().Add(min(d, known.Rules().MaxBlock))
	for between, left := settleRetryMin, d; ; between, left = min(2*between, settleRetryMax), time.Until(end) {
		o, err := l.askOne(ctx, known.Rules(), c, bucket.Request{Op: bucket.OpBlock, For: left})
		if err == nil || !errors.Is(err, ErrUnavailable) || ctx.Err() != nil {
			return o, err
		}
		wait := min(between/2+rand.N(between), time.Until(end)) //nolint:gosec // jitter needs no secrecy
		if pause.For(ctx, wait) != nil || time.Until(end) <= 0 {
			return o, err
		}
	}
}
