package reservations

import (
	"context"
	"time"

	"github.com/headway-go/headway/internal/bucket"
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

func (l *Limiter) blockOne(ctx context.Context, limit Limit, c Charge, d time.Duration) (o Outcome, err error) {
	rules := limit.Rules()
	end := time.Now().Add(min(d, rules.MaxBlock))
	patience, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	err = retry(patience, func(again bool) error {
		if again {
			d = time.Until(end)
		}
		o, err = l.askOne(ctx, rules, c, bucket.Request{Op: bucket.OpBlock, For: d})
		return err
	})
	return o, err
}
