package worker_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/fleet/deadletter"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// Archived tasks that asynq can't read do not stop the records of the others.
func TestSweepPassesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, g := setup(t, slow(100)), newRecords()
		good := b.enqueue(call{N: 1, Cost: 1})
		if err := b.inspector.ArchiveTask("default", good.ID); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			id := fmt.Sprintf("poison-%d", i)
			err := b.client.HSet(t.Context(), "asynq:{default}:t:"+id, "msg", "\xff\xff", "state", "archived").Err()
			if err == nil {
				err = b.client.ZAdd(t.Context(), "asynq:{default}:archived", redis.Z{
					Score: float64(time.Now().Unix() - 100), Member: id,
				}).Err()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		b.runDead(g, 50*time.Millisecond, func(context.Context, *worker.Job[call]) error { return nil })
		eventually(t, good.ID+" has a record", func() bool {
			_, ok := g.of(good.ID)
			return ok
		})
	})
}

// unkept is a deadletter.Store that can never store a record.
type unkept struct {
	*records

	recorded atomic.Int32
}

func (u *unkept) Record(context.Context, []deadletter.Task) error {
	u.recorded.Add(1)
	return fmt.Errorf("too large: %w", deadletter.ErrNotKept)
}

// A record that can never be stored is not retried: the task is archived at once.
func TestRecordsThatCannotBeKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, g := setup(t, slow(100)), &unkept{records: newRecords()}
		b.runDead(g, time.Hour, func(context.Context, *worker.Job[call]) error { return tasks.Permanent(errUpstream) })
		info := b.enqueue(call{N: 1, Cost: 1})
		b.info(info.ID, asynq.TaskStateArchived)
		if n := g.recorded.Load(); n != 1 {
			t.Errorf("tried %d times", n)
		}
	})
}
