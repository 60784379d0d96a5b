package explained

import (
	"context"
	"errors"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/fleet/deadletter"
	"github.com/headway-go/headway/internal/text/shell"
)

// Records returns the records of a task, whatever their state, in one queue or in all. An error that matches
// deadtasks.ErrMalformed is of a record that can't be read; the others are returned beside it.
func Records(ctx context.Context, store *deadtasks.Store, queue, id string) (found []deadtasks.Task, err error) {
	var broken error
	for t, err := range store.List(ctx, deadtasks.Filter{ID: id, Queue: queue, AnyState: true, Payloads: true}) {
		switch {
		case errors.Is(err, deadtasks.ErrMalformed):
			broken = err
		case err != nil:
			return nil, err
		default:
			found = append(found, t)
		}
	}
	return found, broken
}

// Record is what became of a task, by its record.
func Record(t deadtasks.Task) string {
	switch t.State {
	case deadtasks.StateFailing:
		return "has failed and will be retried"
	case deadtasks.StateRecovered:
		return "failed before it succeeded"
	case deadtasks.StateRequeued:
		return "was dead and has been requeued"
	case deadtasks.StateRequeueing:
		return "is being requeued; `" + shell.Command("headway dead requeue", t.ID) + "` completes that"
	case deadtasks.StateDead:
	}
	text := map[deadletter.Cause]string{
		deadletter.CauseRetries:   "is dead: its retries are used up",
		deadletter.CausePermanent: "is dead: its error is permanent",
		deadletter.CauseRefused:   "is dead: it could never start",
		deadletter.CauseExpired:   "is dead: it did not start in time",
		deadletter.CauseFound:     "is dead: it was found in asynq's archive",
	}[t.Cause]
	if t.Batch != "" {
		text += "; `" + shell.Command("headway retry", t.Batch, "--failed") + "` sends it again"
	}
	return text
}
