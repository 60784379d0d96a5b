package deadtasks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/line/asynqdb"
)

const (
	// together is how many tasks are enqueued at the same time.
	together = 16
	// chunkCount and chunkBytes bound the tasks of one chunk.
	chunkCount = 200
	chunkBytes = 8_000_000
)

// Report counts the tasks that a requeue has handled so far.
type Report struct {
	// Requeued counts the tasks that are in the queue again, including tasks of an interrupted requeue.
	Requeued int `json:"requeued"`
	// Present counts the tasks that were in the queue already, or had succeeded. They are not enqueued, and not dead
	// any more.
	Present int `json:"present"`
	// OfBatches counts requests of batches. They are not enqueued, because the batch sends them again.
	OfBatches int `json:"of_batches"`
	// Others counts the tasks that run now, or that another requeue claimed at the same time.
	Others int `json:"others"`
}

// requeuer enqueues dead tasks again.
type requeuer struct {
	store     *Store
	client    *asynq.Client
	inspector *asynq.Inspector
}

func newRequeuer(store *Store, client redis.UniversalClient) *requeuer {
	return &requeuer{
		store: store, client: asynq.NewClientFromRedisClient(asynqdb.ForClient(client)),
		inspector: asynq.NewInspectorFromRedisClient(client),
	}
}

// Requeue enqueues the dead tasks that f chooses, with the same ID, payload, charges and options, and with all their
// retries. It deletes their copies in asynq's archive, and drops a deadline that has passed. It skips requests of
// batches, because their results belong to another round. Progress is called after each chunk; it may be nil. The
// client is of the Redis that asynq uses.
//
// A task first enters the queue held, so that it does not run yet. Then its record is claimed, and then the task is
// released. So a requeue that was killed at any point can be called again, and two may run at once: no task is lost
// or enqueued twice. A task that can't be requeued does not stop the others: the error joins the first faults of such
// tasks. After any other error call Requeue again.
func (s *Store) Requeue(
	ctx context.Context, client redis.UniversalClient, f Filter, progress func(Report),
) (Report, error) {
	return newRequeuer(s, client).requeue(ctx, f, progress)
}

func (r *requeuer) requeue(ctx context.Context, f Filter, progress func(Report)) (Report, error) {
	if f.Until.IsZero() {
		f.Until = time.Now() // leaves tasks that die again meanwhile
	}
	f.States, f.Payloads = nil, true
	total := Report{}
	var gathered []Task
	var faults faults
	size := 0
	flush := func() error {
		if len(gathered) == 0 {
			return nil
		}
		err := r.chunk(ctx, gathered, &total, &faults)
		if gathered, size = nil, 0; progress != nil {
			progress(total)
		}
		return err
	}
	for t, err := range r.store.List(ctx, f) {
		if errors.Is(err, ErrMalformed) {
			faults.add(err)
			continue
		}
		if err != nil {
			return total, faults.and(err)
		}
		if t.Batch != "" {
			total.OfBatches++
			continue
		}
		gathered = append(gathered, t)
		if size += len(t.Payload); len(gathered) < chunkCount && size < chunkBytes {
			continue
		}
		if err := flush(); err != nil {
			return total, faults.and(err)
		}
	}
	return total, faults.and(flush())
}

// faults are the faults of single tasks. It stores the first of them, and counts the rest.
type faults struct {
	first []error
	more  int
}

const faultsMost = 20

func (f *faults) add(err error) {
	if len(f.first) == faultsMost {
		f.more++
		return
	}
	f.first = append(f.first, err)
}

// and joins the faults and another error, which may be nil.
func (f *faults) and(err error) error {
	all := slices.Clone(f.first)
	if f.more > 0 {
		all = append(all, fmt.Errorf("and %d more tasks that can't be requeued", f.more))
	}
	return errors.Join(append(all, err)...)
}

// chunk requeues some tasks, and counts them. It adds tasks that can't be requeued to the faults.
func (r *requeuer) chunk(ctx context.Context, tasks []Task, done *Report, faults *faults) error {
	token := uuid.NewString()
	all, failed := make([]standing, len(tasks)), make([]error, len(tasks))
	err := sideBySide(ctx, len(tasks), func(i int) error {
		all[i].Task = tasks[i]
		failed[i] = r.hold(ctx, &all[i], token)
		return nil
	})
	if err != nil {
		return err
	}
	var good []standing
	for i, err := range failed {
		switch {
		case err == nil:
			good = append(good, all[i])
		case ctx.Err() != nil, errors.Is(err, ErrUnavailable):
			return fmt.Errorf("requeue dead tasks: %w", err)
		default:
			if _, away := r.inspector.Queues(); away != nil {
				return fmt.Errorf("requeue dead tasks: %w", err)
			}
			faults.add(fmt.Errorf("requeue dead tasks: %w", err))
		}
	}
	return r.letGo(ctx, good, token, done)
}

// letGo releases held tasks, under this token or another requeue's, and deletes held tasks that are not needed.
func (r *requeuer) letGo(ctx context.Context, tasks []standing, token string, done *Report) error {
	held := map[string][]string{} // keys of the records by the token of their tasks in the queue
	for _, t := range tasks {
		if t.holder != "" {
			held[t.holder] = append(held[t.holder], t.key)
		}
	}
	mine := map[string]bool{}
	for token, keys := range held {
		if err := r.store.claim(ctx, keys, token, mine); err != nil {
			return err
		}
	}
	err := sideBySide(ctx, len(tasks), func(i int) error {
		switch t := tasks[i]; {
		case mine[t.key]:
			return r.release(t.Task)
		// another requeue claimed the record after it was read: it has released this task, or enqueued its own
		case t.holder == token:
			return r.withdraw(t.Task, token)
		}
		return nil
	})
	if err != nil {
		return err
	}
	var ended []Task
	for _, t := range tasks {
		switch {
		case mine[t.key]:
			done.Requeued++
		case t.holder != "", t.runs:
			done.Others++
			continue
		default:
			done.Present++
		}
		ended = append(ended, t.Task)
	}
	return r.store.requeued(ctx, ended)
}

// sideBySide calls do for each number below n, several at once, and returns the first error, which does not stop the
// others. After the end of ctx it starts no further call, because asynq's inspector takes no context.
func sideBySide(ctx context.Context, n int, do func(i int) error) error {
	var group errgroup.Group
	group.SetLimit(together)
	for i := range n {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return do(i)
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("requeue dead tasks: %w", err)
	}
	return nil
}

// Delete deletes a dead task: first in asynq's archive, so that no worker finds it there again, then its record. A
// task that is in the queue stays there. The error matches [ErrNotFound] if the task has no dead record.
func (s *Store) Delete(ctx context.Context, client redis.UniversalClient, t Task) error {
	r := newRequeuer(s, client)
	if t.State != StateDead {
		return fmt.Errorf("%w: task %s in queue %s is %s", ErrNotFound, t.ID, t.Queue, t.State)
	}
	info, err := r.inspector.GetTaskInfo(t.Queue, t.ID)
	if err == nil && info.State == asynq.TaskStateArchived {
		err = r.inspector.DeleteTask(t.Queue, t.ID)
	}
	if err != nil && !asynqdb.Gone(err) {
		return fmt.Errorf("take task %s out of asynq's archive: %w", t.ID, errors.Join(err, ctx.Err()))
	}
	op := "delete the record of task " + t.ID
	const attempts = 10 // each conflict means that another writer made progress
	for range attempts {
		found, err := s.records.Get(ctx, []string{t.key}, false)
		if err != nil {
			return of(op, err)
		}
		if h, err := decodeHead(found[t.key]); err != nil || h.State != StateDead {
			return errors.Join(fmt.Errorf("%w of a dead task %s in queue %s", ErrNotFound, t.ID, t.Queue), err)
		}
		if deleted, err := s.records.Delete(ctx, t.key, found[t.key].Version); deleted || err != nil {
			return of(op, err)
		}
	}
	return of(op, fmt.Errorf("%w: %w each time", ErrUnavailable, documents.ErrConflict))
}
