package waitlist

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// Plan is the decision of the dispatcher for a bucket.
type Plan struct {
	Bucket string
	// Planned is Due.Planned.
	Planned int64
	Promote []Task
	// Next is the time until the next look at the bucket. Zero means that no task waits there. If a task waits after
	// all, the look is due after BeginWithin. A look is never later than BeginWithin after the promotion of the oldest
	// promoted task.
	Next time.Duration
}

// Promote moves tasks that still wait in their bucket from the list to the promoted tasks, and returns them in order.
// It plans the next look at each bucket. A look that a Join, Report, Leave or Fail has planned since the last look
// stays. If the process with this ID is no longer on duty, nothing changes.
func (w *Waitlist) Promote(ctx context.Context, id string, plans []Plan) (promoted []Task, onDuty bool, err error) {
	type plan struct {
		Bucket  string   `json:"bucket"`
		Planned micros   `json:"planned"`
		Next    int64    `json:"next"` // microseconds
		Tasks   []string `json:"tasks,omitempty"`
	}
	texts := make([]plan, len(plans))
	for i, p := range plans {
		texts[i] = plan{
			Bucket: p.Bucket, Planned: micros(p.Planned), Next: p.Next.Microseconds(), Tasks: names(p.Promote),
		}
	}
	var answer struct {
		OnDuty   bool `json:"on_duty"`
		Promoted []string
	}
	a := args{"id": id, "plans": texts, "begin": BeginWithin.Microseconds()}
	err = w.run(ctx, "promote waiting tasks", w.scripts.promote, a, &answer)
	return named(answer.Promoted), answer.OnDuty, err
}

// AllPromoted returns all promoted tasks that have not begun, in the order of promotion. A dispatcher that took over
// sends them to workers again, because the last one may have died before it did.
func (w *Waitlist) AllPromoted(ctx context.Context) ([]Task, error) {
	buckets, _, err := w.buckets(ctx, "", math.MaxInt)
	if err != nil {
		return nil, err
	}
	var all []redis.Z
	for some := range slices.Chunk(buckets, scanned) {
		var found []*redis.ZSliceCmd
		_, err := w.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, bucket := range some {
				found = append(found, p.ZRangeWithScores(ctx, root+"promoted:"+bucket, 0, -1))
			}
			return nil
		})
		if err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") { // Look deletes a key of another type
			return nil, fmt.Errorf("list promoted tasks: %w", err)
		}
		for _, f := range found {
			all = append(all, f.Val()...)
		}
	}
	slices.SortStableFunc(all, func(a, b redis.Z) int { return cmp.Compare(a.Score, b.Score) })
	tasks := make([]Task, 0, len(all))
	for _, z := range all {
		if t, err := ParseTask(fmt.Sprint(z.Member)); err == nil { // else something else has put it there
			tasks = append(tasks, t)
		}
	}
	return tasks, nil
}

// Park stops counting promoted tasks that can't be delivered now: their workers have died, and asynq delivers the
// tasks again when their leases end. The tasks keep their tags, and are promoted tasks when they arrive.
func (w *Waitlist) Park(ctx context.Context, tasks []Task) error {
	return w.run(ctx, "park promoted tasks", w.scripts.park, args{"tasks": names(tasks)}, nil)
}

// Resign ends the duty of the process with this ID, and wakes the others.
func (w *Waitlist) Resign(ctx context.Context, id string) error {
	return w.run(ctx, "resign as dispatcher", w.scripts.resign, args{"id": id}, nil)
}
