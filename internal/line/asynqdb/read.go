package asynqdb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/text/nearest"
)

// Read returns the tasks with these IDs, in their order; nil where there is no such task, or its message is
// unreadable.
func (d *DB) Read(ctx context.Context, queue string, ids []string) ([]*asynq.Task, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	pipe, messages := d.client.Pipeline(), make([]*redis.StringCmd, len(ids))
	for i, id := range ids {
		messages[i] = pipe.HGet(ctx, keysOf(queue).tasks()+id, "msg")
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("read tasks of queue %s: %w", queue, err)
	}
	read := make([]*asynq.Task, len(ids))
	for i, message := range messages {
		if message.Err() == nil {
			read[i], _ = DecodeMessage([]byte(message.Val()))
		}
	}
	return read, nil
}

// prefixPage is how many IDs are read together.
const prefixPage = 5000

// Gone says whether the error of a read is that asynq has no such task.
func Gone(err error) bool {
	return errors.Is(err, asynq.ErrTaskNotFound) || errors.Is(err, asynq.ErrQueueNotFound)
}

// ErrSeveral is matched where the beginning of an ID means several tasks.
var ErrSeveral = errors.New("several tasks")

// Beginning returns the one task whose ID begins with prefix, in a queue or, where it is empty, in all. The error
// matches asynq.ErrTaskNotFound or ErrSeveral.
func (d *DB) Beginning(ctx context.Context, queue, prefix string) (in, id string, err error) {
	queues := []string{queue}
	if queue == "" {
		if queues, err = d.inspector.Queues(); err != nil {
			return "", "", fmt.Errorf("list the queues: %w", err)
		}
	}
	const named = 4
	var ids []string
	for _, q := range queues {
		some, err := d.withPrefix(ctx, q, prefix, named)
		if err != nil {
			return "", "", err
		}
		if len(some) > 0 {
			in = q
		}
		ids = append(ids, some...)
	}
	switch {
	case len(ids) == 0 || prefix == "":
		return "", "", asynq.ErrTaskNotFound
	case len(ids) == 1:
		return in, ids[0], nil
	}
	return "", "", fmt.Errorf("%w begin with %.80q, such as %s: name more of it", ErrSeveral, prefix,
		strings.Join(ids[:min(named, len(ids))], ", "))
}

// withPrefix returns the IDs of tasks of a queue that begin with prefix, at most that many. It reads the IDs of all
// tasks of the queue.
func (d *DB) withPrefix(ctx context.Context, queue, prefix string, most int) (ids []string, err error) {
	k := keysOf(queue)
	for _, key := range []string{
		k.pending(), k.active(), k.scheduled(), k.retry(), k.archived(), k.completed(),
	} {
		isList := key == k.pending() || key == k.active()
		for from := int64(0); ; from += prefixPage {
			var page []string
			if isList {
				page, err = d.client.LRange(ctx, key, from, from+prefixPage-1).Result()
			} else {
				page, err = d.client.ZRange(ctx, key, from, from+prefixPage-1).Result()
			}
			if err != nil {
				return nil, fmt.Errorf("read the IDs of queue %s: %w", queue, err)
			}
			for _, id := range page {
				if strings.HasPrefix(id, prefix) {
					if ids = append(ids, id); len(ids) == most {
						return ids, nil
					}
				}
			}
			if len(page) < prefixPage {
				break
			}
		}
	}
	return ids, nil
}

// QueuesOf returns the queues in which a task is meant: the named one, whether it has the task or not, else all that
// have a task with this ID, in their order. The error matches asynq.ErrTaskNotFound if there is none, or is that of
// Redis.
func (d *DB) QueuesOf(ctx context.Context, queue, id string) (found []string, err error) {
	if queue != "" {
		return []string{queue}, nil
	}
	queues, err := d.inspector.Queues()
	if err != nil {
		return nil, fmt.Errorf("list the queues: %w", err)
	}
	slices.Sort(queues)
	for _, queue := range queues {
		if ctx.Err() != nil { // asynq's inspector takes no context
			return nil, fmt.Errorf("look for task %s: %w", id, ctx.Err())
		}
		_, err := d.inspector.GetTaskInfo(queue, id)
		switch {
		case err == nil:
			found = append(found, queue)
		case !Gone(err):
			return nil, fmt.Errorf("look for task %s in queue %s: %w", id, queue, err)
		}
	}
	if len(queues) == 0 {
		return nil, fmt.Errorf("%w: there is no %s, and no queue: this Redis is another one than that of the workers, "+
			"or nothing was enqueued yet", asynq.ErrTaskNotFound, id)
	}
	if len(found) == 0 {
		word := "queues"
		if len(queues) == 1 {
			word = "queue"
		}
		return nil, fmt.Errorf("%w: there is no %s in %s %s; asynq forgets a task once it is done, "+
			"unless it was enqueued to be kept", asynq.ErrTaskNotFound, id, word, nearest.Quoted(queues))
	}
	return found, nil
}
