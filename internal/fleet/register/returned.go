package register

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// lacked is the key of the needs of returned tasks, by when such a task was returned last.
	lacked = root + "lacked"
	// ReturnPauseMost bounds how long a returned task waits for its next delivery.
	ReturnPauseMost = 2 * time.Minute
	// lackedFor is for how long a returned task counts as waiting: longer than until its next delivery.
	lackedFor = ReturnPauseMost + time.Minute
	// returnedKept is for how long Redis stores when a task was returned first, after its last return.
	returnedKept = time.Hour
	// unservedPart is how many tasks Unserved returns at once.
	unservedPart = 1000
)

func lackedBefore(now time.Time) string { return strconv.FormatInt(now.Add(-lackedFor).Unix(), 10) }

// key is the key of the tasks that need it, and its own text.
func (n Need) key() (key, text string) {
	b, _ := json.Marshal(n) // texts have no fault
	return root + "unserved:" + string(b), string(b)
}

// Returned stores that a worker returned a task which it can't serve, and what it lacks. It returns for how long
// workers have returned the task, by their clocks; zero for a task that none has returned for an hour.
func (r *Register) Returned(ctx context.Context, task string, lacks Need, now time.Time) (time.Duration, error) {
	first := root + "returned:" + task
	key, text := lacks.key()
	var since *redis.StringCmd
	_, err := r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.SetNX(ctx, first, now.UnixMilli(), returnedKept)
		p.Expire(ctx, first, returnedKept)
		since = p.Get(ctx, first)
		for set, member := range map[string]string{lacked: text, key: task} {
			p.ZAdd(ctx, set, redis.Z{Score: float64(now.Unix()), Member: member})
			p.ZRemRangeByScore(ctx, set, "-inf", lackedBefore(now))
			p.Expire(ctx, set, lackedFor)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("store that the task was returned: %w", err)
	}
	at, err := since.Int64()
	if err != nil {
		return 0, fmt.Errorf("read when the task was returned first: %w", err)
	}
	return max(0, now.Sub(time.UnixMilli(at))), nil
}

// Lack is something that tasks need, and that the workers which got them lack.
type Lack struct {
	Need
	// Tasks is how many tasks wait for it.
	Tasks int
}

// Lacked returns what the tasks need that workers have returned in the last three minutes.
func (r *Register) Lacked(ctx context.Context, now time.Time) (lacks []Lack, err error) {
	since := &redis.ZRangeBy{Min: lackedBefore(now), Max: "+inf"}
	texts, err := r.client.ZRangeByScore(ctx, lacked, since).Result()
	for _, text := range texts {
		var l Lack
		if json.Unmarshal([]byte(text), &l.Need) != nil { // it is of another version
			continue
		}
		key, _ := l.key()
		n, countErr := r.client.ZCount(ctx, key, since.Min, since.Max).Result()
		if err = countErr; err != nil {
			break
		}
		if l.Tasks = int(n); n > 0 {
			lacks = append(lacks, l)
		}
	}
	if err != nil {
		return lacks, fmt.Errorf("read what workers lack: %w", err)
	}
	return lacks, nil
}

// Unserved returns tasks that were returned because of this need, at most a thousand.
func (r *Register) Unserved(ctx context.Context, n Need) ([]string, error) {
	key, _ := n.key()
	names, err := r.client.ZRange(ctx, key, 0, unservedPart-1).Result()
	if err != nil {
		return nil, fmt.Errorf("read which tasks no worker could serve: %w", err)
	}
	return names, nil
}

// Served stores that the tasks no longer wait for what they need. A task that is returned again is stored again.
func (r *Register) Served(ctx context.Context, n Need, tasks []string) error {
	members := make([]any, len(tasks))
	for i, t := range tasks {
		members[i] = t
	}
	key, _ := n.key()
	if err := r.client.ZRem(ctx, key, members...).Err(); err != nil {
		return fmt.Errorf("store that tasks are served: %w", err)
	}
	return nil
}
