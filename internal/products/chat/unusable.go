package chat

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/llm"
)

const (
	// unusableFor is how long the fleet remembers that a task got an answer that can't be used: longer than the pause
	// before any retry that is worth a call.
	unusableFor = 7 * 24 * time.Hour
	// unusablePatience bounds the question. Without an answer the task is retried as after any failure.
	unusablePatience = 5 * time.Second
)

// Unusable ends tasks that get the same answer twice that can't be used, such as a page or a stream: each costs as much
// as a good answer, and mostly comes again. The fleet shares what it remembers. Nil remembers nothing.
type Unusable struct {
	// Redis is where it is remembered.
	Redis redis.UniversalClient
	// Log gets a warning if Redis does not answer.
	Log *slog.Logger
}

// keyUnusable is the key of a task, before its queue and its ID.
const keyUnusable = "headway:{unusable}:"

// after returns the error of a call, as a permanent one if an earlier call of the task got the same answer.
func (u *Unusable) after(ctx context.Context, queue, id string, err error) error {
	e, ok := errors.AsType[*llm.Error](err)
	if u == nil || !ok || e.Unusable == "" {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unusablePatience)
	defer cancel()
	key := keyUnusable + queue + "/" + id
	before, failed := u.Redis.SetArgs(ctx, key, e.Unusable, redis.SetArgs{Get: true, TTL: unusableFor}).Result()
	switch {
	case failed != nil && !errors.Is(failed, redis.Nil):
		u.Log.WarnContext(ctx, "not known whether a task got the same unusable answer before", slog.String("task", id),
			slog.Any("error", failed))
	case before == e.Unusable:
		_ = u.Redis.Del(ctx, key).Err() // a task that is sent again has two calls again
		return tasks.Permanent(fmt.Errorf("%w (as before: a further call would be paid for the same)", err))
	}
	return err
}
