package deadtasks

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"go.mongodb.org/mongo-driver/v2/bson"
	"golang.org/x/sync/errgroup"
)

const (
	// together is how many tasks are enqueued side by side.
	together = 16
	// chunkCount and chunkBytes bound what is requeued at once.
	chunkCount = 200
	chunkBytes = 8_000_000
)

// Report is what a requeue has done so far.
type Report struct {
	// Requeued are the tasks that are in the queue again, those of an interrupted requeue included.
	Requeued int
	// Present were in the queue already, or had gone well: nothing was enqueued, and they are not dead any more.
	Present int
	// OfBatches are requests of batches, which were left: the batch sends them again.
	OfBatches int
	// Others run at this moment, or were taken by another requeue at the same time.
	Others int
}

func (r Report) plus(other Report) Report {
	return Report{
		r.Requeued + other.Requeued, r.Present + other.Present, r.OfBatches + other.OfBatches, r.Others + other.Others,
	}
}

// Requeuer enqueues dead tasks again. Safe for concurrent use.
type Requeuer struct {
	store     *Store
	client    *asynq.Client
	inspector *asynq.Inspector
}

// NewRequeuer returns one for the tasks of store on the Redis that asynq uses. The client stays the caller's.
func NewRequeuer(store *Store, client redis.UniversalClient) *Requeuer {
	return &Requeuer{
		store: store, client: asynq.NewClientFromRedisClient(client),
		inspector: asynq.NewInspectorFromRedisClient(client),
	}
}

// Requeue enqueues the tasks that f chooses and that are dead: with the same ID, payload, charges and options, and with
// all their retries. What asynq's archive has of them is taken out of it. A deadline that has passed is dropped.
// Requests of batches are left: their results would be those of another round. Progress is called after each chunk; it
// may be nil.
//
// A task goes into the queue in a way in which it does not run yet, then the record says that it is being requeued,
// then it is let go: so a requeue that was killed anywhere and is called again, or two at once, neither lose a task nor
// enqueue it twice. A task that can't be requeued does not keep others: the error joins the first faults of such tasks.
// After any other error call it again.
func (r *Requeuer) Requeue(ctx context.Context, f Filter, progress func(Report)) (Report, error) {
	if f.Until.IsZero() {
		f.Until = r.store.now() // what dies again meanwhile is left
	}
	f.States = nil
	total := Report{}
	var gathered []Task
	var faults faults
	size := 0
	flush := func() error {
		if len(gathered) == 0 {
			return nil
		}
		done, err := r.chunk(ctx, gathered, &faults)
		total = total.plus(done)
		if gathered, size = nil, 0; progress != nil {
			progress(total)
		}
		return err
	}
	for t, err := range r.store.Whole(ctx, f) {
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

// faults are those of single tasks, of which the first are kept.
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

// chunk requeues some tasks. Those that can't be requeued are added to the faults.
func (r *Requeuer) chunk(ctx context.Context, tasks []Task, faults *faults) (done Report, err error) {
	token := uuid.NewString()
	standings, failed := make([]standing, len(tasks)), make([]error, len(tasks))
	_ = sideBySide(len(tasks), func(i int) error { // the errors are looked at below
		standings[i], failed[i] = r.hold(ctx, tasks[i], token)
		return nil
	})
	var good []Task
	var held []standing
	for i, err := range failed {
		switch {
		case err == nil:
			good, held = append(good, tasks[i]), append(held, standings[i])
		case ctx.Err() != nil, errors.Is(err, ErrUnavailable):
			return done, fmt.Errorf("requeue dead tasks: %w", err)
		default:
			if _, away := r.inspector.Queues(); away != nil {
				return done, fmt.Errorf("requeue dead tasks: %w", err)
			}
			faults.add(fmt.Errorf("requeue dead tasks: %w", err))
		}
	}
	return r.letGo(ctx, good, held, token)
}

// letGo has tasks run that are held, under this token or another requeue's, and takes those back that were held in
// vain.
func (r *Requeuer) letGo(
	ctx context.Context, tasks []Task, standings []standing, token string,
) (done Report, err error) {
	held := map[string][]string{} // keys of the records by the token of their tasks in the queue
	for i, s := range standings {
		if s.held {
			held[s.token] = append(held[s.token], tasks[i].key)
		}
	}
	mine := map[string]bool{}
	for token, keys := range held {
		if err = r.store.claim(ctx, keys, token, mine); err != nil {
			return done, err
		}
	}
	err = sideBySide(len(tasks), func(i int) error {
		switch s := standings[i]; {
		case s.held && mine[tasks[i].key]:
			return r.release(ctx, tasks[i])
		// another requeue has been here since the record was read: this would be the second, or it has let this one go
		case s.held && s.token == token:
			return r.withdraw(ctx, tasks[i], token)
		}
		return nil
	})
	if err != nil {
		return done, err
	}
	var ended []Task
	for i, s := range standings {
		switch {
		case s.held && mine[tasks[i].key]:
			done.Requeued++
		case s.held, s.runs:
			done.Others++
			continue
		default:
			done.Present++
		}
		ended = append(ended, tasks[i])
	}
	return done, r.store.requeued(ctx, ended)
}

// sideBySide calls do for each number below n, several at once, and returns the first error; what was begun is ended.
func sideBySide(n int, do func(i int) error) error {
	var group errgroup.Group
	group.SetLimit(together)
	for i := range n {
		group.Go(func() error { return do(i) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("requeue dead tasks: %w", err)
	}
	return nil
}

// Delete forgets a dead task for good: in asynq's archive, so that no worker finds it there again, and then its record.
// A task that is in the queue stays there. The error matches [ErrNotFound] where it has no dead record.
func (r *Requeuer) Delete(ctx context.Context, t Task) error {
	if t.State != StateDead {
		return fmt.Errorf("%w: task %s in queue %s is %s", ErrNotFound, t.ID, t.Queue, t.State)
	}
	info, err := r.inspector.GetTaskInfo(t.Queue, t.ID)
	if err == nil && info.State == asynq.TaskStateArchived {
		err = r.inspector.DeleteTask(t.Queue, t.ID)
	}
	if err != nil && !gone(err) {
		return fmt.Errorf("take task %s out of asynq's archive: %w", t.ID, errors.Join(err, ctx.Err()))
	}
	found, err := r.store.records.DeleteOne(ctx, bson.M{"_id": t.key, fieldState: StateDead})
	if err != nil {
		return unavailable("delete the record of task "+t.ID, err)
	}
	if found.DeletedCount == 0 {
		return fmt.Errorf("%w of a dead task %s in queue %s", ErrNotFound, t.ID, t.Queue)
	}
	return nil
}
