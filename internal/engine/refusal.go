package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/headway-go/headway/internal/waitlist"
)

// refusalsKept is how much longer than the wait refusals are remembered: refusals further apart are not counted
// together.
const refusalsKept = time.Hour

// Refused counts that the provider refused a task, which asks for a block of d. It returns how often the provider did
// so in a row, and for how long the task's refusals asked before. Both are forgotten an hour after the task should
// have been back. On an error the count is 1.
func (s *Engine) Refused(
	ctx context.Context, t waitlist.Task, d time.Duration,
) (times int, before time.Duration, err error) {
	d = max(0, d).Truncate(time.Millisecond)
	pipe := s.redis.TxPipeline()
	count := pipe.HIncrBy(ctx, refusalsKey(t), refusalsTimes, 1)
	sum := pipe.HIncrBy(ctx, refusalsKey(t), refusalsBlocked, d.Milliseconds())
	pipe.PExpire(ctx, refusalsKey(t), d+refusalsKept)
	if _, err := pipe.Exec(ctx); err != nil {
		return 1, 0, fmt.Errorf("count the refusals of %s: %w", t, err)
	}
	return int(count.Val()), time.Duration(sum.Val())*time.Millisecond - d, nil
}

// ForgetRefusals sets the count of Refused back to zero. What the task's refusals asked for stays.
func (s *Engine) ForgetRefusals(ctx context.Context, t waitlist.Task) error {
	if err := s.redis.HDel(ctx, refusalsKey(t), refusalsTimes).Err(); err != nil {
		return fmt.Errorf("forget the refusals of %s: %w", t, err)
	}
	return nil
}

// Refusals is the count of Refused; zero where there is none.
func (s *Engine) Refusals(ctx context.Context, t waitlist.Task) int {
	n, _ := s.redis.HGet(ctx, refusalsKey(t), refusalsTimes).Int() // for people alone
	return n
}

// The fields of what is kept of a task's refusals: how many in a row, and milliseconds.
const (
	refusalsTimes   = "times"
	refusalsBlocked = "blocked"
)

func refusalsKey(t waitlist.Task) string { return "headway:{wait}:refused:" + t.String() }
