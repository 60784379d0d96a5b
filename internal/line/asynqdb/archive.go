package asynqdb

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Archived is a task in asynq's archive. At is when it was archived, in whole seconds of the archiving machine's clock.
type Archived struct {
	ID, Queue string
	At        time.Time
}

// Archived returns the tasks of a queue that were archived at since or later, the oldest first. A zero since returns
// all.
func (d *DB) Archived(ctx context.Context, queue string, since time.Time) ([]Archived, error) {
	from := "-inf"
	if !since.IsZero() {
		from = strconv.FormatInt(since.Unix(), 10)
	}
	scores := &redis.ZRangeBy{Min: from, Max: "+inf"}
	found, err := d.client.ZRangeByScoreWithScores(ctx, keysOf(queue).archived(), scores).Result()
	if err != nil {
		return nil, fmt.Errorf("read the archive of queue %s: %w", queue, err)
	}
	archived := make([]Archived, 0, len(found))
	for _, z := range found {
		if id, ok := z.Member.(string); ok {
			archived = append(archived, Archived{ID: id, Queue: queue, At: time.Unix(int64(z.Score), 0)})
		}
	}
	return archived, nil
}
