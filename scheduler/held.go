package scheduler

import (
	"context"
	"errors"
	"fmt"

	"github.com/headway-go/headway/reservations"
)

// Held is the place that a task has with one bucket.
type Held struct {
	reservations.Place `json:"place"`

	// Bucket is the name of the bucket: that of the charge, with the shard of the place (reservations.Charge.Bucket).
	Bucket string `json:"bucket"`
}

// For says whether the place is with the bucket of the charge, whichever its shard.
func (h Held) For(c reservations.Charge) bool {
	c.Shard = h.Shard
	return h.Bucket == c.Bucket()
}

// Recall hands out the places that the task was given last, none where there are none: the task is new then. The first is that of the bucket in
// whose line it stood. It has to be
// called for each delivery of a task with a charge, for it also takes the task out of its line; calling it twice is harmless, the second
// answer is empty. On an error from Redis there is no place either: go on as new, which costs the task its places and never a limit.
func (s *Scheduler) Recall(ctx context.Context, t Task) ([]Held, error) {
	found, err := s.recalls.Ask(ctx, t)
	if err = errors.Join(err, found.err); err != nil {
		return nil, fmt.Errorf("recall %s: %w", t, err)
	}
	kept := found.place
	if kept.Bucket == "" {
		return nil, nil
	}
	return append([]Held{{Place: kept.Place, Bucket: kept.Bucket}}, kept.Others...), nil
}
