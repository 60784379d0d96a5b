package dispatcher

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/line/waitlist"
)

// refusalsKept is how much longer than the wait refusals are remembered: refusals further apart are not counted
// together.
const refusalsKept = time.Hour

// refusals counts how often in a row the provider refused the call of a task.
type refusals struct{ redis redis.UniversalClient }

// Refused counts that the provider refused a task, which waits for d. It returns how often the provider did so in a
// row. The count is forgotten an hour after the task should have been back. On an error the count is 1.
func (s *refusals) Refused(ctx context.Context, t waitlist.Task, d time.Duration) (times int, err error) {
	pipe := s.redis.TxPipeline()
	count := pipe.Incr(ctx, refusalsKey(t))
	pipe.PExpire(ctx, refusalsKey(t), max(0, d)+refusalsKept)
	if _, err := pipe.Exec(ctx); err != nil {
		return 1, fmt.Errorf("count the refusals of %s: %w", t, err)
	}
	return int(count.Val()), nil
}

// ForgetRefusals sets the count of Refused back to zero.
func (s *refusals) ForgetRefusals(ctx context.Context, t waitlist.Task) error {
	if err := s.redis.Del(ctx, refusalsKey(t)).Err(); err != nil {
		return fmt.Errorf("forget the refusals of %s: %w", t, err)
	}
	return nil
}

// Refusals is the count of Refused; zero where there is none.
func (s *refusals) Refusals(ctx context.Context, t waitlist.Task) int {
	n, _ := s.redis.Get(ctx, refusalsKey(t)).Int() // for people alone
	return n
}

func refusalsKey(t waitlist.Task) string { return "headway:{wait}:refused:" + t.String() }

// aloneMost is the longest time for which a task waits alone after a refusal that names no time.
const aloneMost = time.Minute

// AloneAfter is for how long a task waits alone after a number of refusals in a row that named no time: from a second
// on twice as long each time, and by chance up to half as much again.
func AloneAfter(times int) time.Duration {
	d := min(aloneMost, time.Second<<min(max(0, times-1), 10))
	return d + rand.N(d/2) //nolint:gosec // jitter needs no secrecy
}
