package enqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/fleet/cause"
	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/products/chat"
	"github.com/headway-go/headway/internal/products/record"
	"github.com/headway-go/headway/internal/text/batchref"
)

// pageSize is how many tasks of a queue are read at once.
const pageSize = 500

// eachPage calls do for all tasks that list, of asynq's inspector, returns for the queue, a page at a time. A queue
// that does not exist has none. What names the reading in errors.
func eachPage(
	ctx context.Context, queue string, list func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error), what string,
	do func([]*asynq.TaskInfo) error,
) error {
	for page := 1; ; page++ {
		if ctx.Err() != nil { // asynq's inspector knows no context
			return ctx.Err()
		}
		infos, err := list(queue, asynq.PageSize(pageSize), asynq.Page(page))
		if errors.Is(err, asynq.ErrQueueNotFound) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if err := do(infos); err != nil {
			return err
		}
		if len(infos) < pageSize {
			return nil
		}
	}
}

// goesOn says what becomes of a batch whose command ends. A context that has ended does not matter.
func (s services) goesOn(ctx context.Context, queue string) string {
	by, err := asynqdb.New(s.Queue).State(context.WithoutCancel(ctx), queue, "")
	switch {
	case err != nil:
		return "the others stay in the queue, and the same command goes on"
	case by.Paused:
		return cause.Paused(queue).Text + ", so the others wait until it is resumed; the same command goes on"
	case by.Workers == 0:
		return cause.Unserved(queue, by.Others).Text + ", so the others wait until one does; the same command goes on"
	}
	return "the workers go on; the same command follows them again"
}

// active returns the requests of a batch whose tasks a worker of its queue has.
func (s services) active(ctx context.Context, b batches.Batch) ([]batchref.Ref, error) {
	running, err := s.running(ctx, b.Queue)
	return running[b.ID], err
}

// running returns the requests whose tasks a worker of the queue has, by batch.
func (s services) running(ctx context.Context, queue string) (map[string][]batchref.Ref, error) {
	refs := map[string][]batchref.Ref{}
	list := asynq.NewInspectorFromRedisClient(s.Queue).ListActiveTasks
	err := eachPage(ctx, queue, list, "list the tasks of queue "+queue+" that run",
		func(infos []*asynq.TaskInfo) error {
			for _, info := range infos {
				if ref, ok := batchref.Parse(info.ID); ok {
					refs[ref.Batch] = append(refs[ref.Batch], ref)
				}
			}
			return nil
		})
	return refs, err
}

// oncePerQueue returns running with one read of each queue.
func oncePerQueue(running runningTasks) runningTasks {
	read := map[string]map[string][]batchref.Ref{}
	return func(ctx context.Context, queue string) (refs map[string][]batchref.Ref, err error) {
		refs, known := read[queue]
		if !known {
			if refs, err = running(ctx, queue); err == nil {
				read[queue] = refs
			}
		}
		return refs, err
	}
}

type runningTasks func(ctx context.Context, queue string) (map[string][]batchref.Ref, error)

// leaseLeast is what a lease has left at least while its worker lives: asynq extends leases to 30 s every 5 s.
const leaseLeast = 20 * time.Second

// lost returns how many requests of a batch were on workers that are gone, if no others wait. In is the shortest time
// until asynq puts them back.
func (s services) lost(ctx context.Context, b batches.Batch, waiting int) (n int, in time.Duration, err error) {
	active, err := s.active(ctx, b)
	if err != nil || len(active) == 0 || len(active) < waiting {
		return 0, 0, err
	}
	servers, err := asynq.NewInspectorFromRedisClient(s.Queue).Servers()
	if err != nil {
		return 0, 0, fmt.Errorf("look for the workers of queue %s: %w", b.Queue, err)
	}
	held := map[string]bool{}
	for _, server := range servers {
		for _, w := range server.ActiveWorkers {
			held[w.TaskID] = true
		}
	}
	active = slices.DeleteFunc(active, func(ref batchref.Ref) bool { return held[ref.TaskID()] })
	if len(active) < max(1, waiting) {
		return 0, 0, nil
	}
	// A worker that has just taken a task does not show it yet, but its lease is new.
	state, err := asynqdb.New(s.Queue).State(ctx, b.Queue, active[0].TaskID())
	in = time.Until(state.Lease)
	if err != nil || state.Lease.IsZero() || in > leaseLeast {
		return 0, 0, err
	}
	return len(active), max(0, in+asynqdb.RecoverAfter), nil
}

// heal stores a result for the archived tasks of a batch that have none: their worker died, or could not reach the
// database. Results that exist stay.
func (s services) heal(ctx context.Context, b batches.Batch) error {
	list := asynq.NewInspectorFromRedisClient(s.Queue).ListArchivedTasks
	return eachPage(ctx, b.Queue, list, "list the archived tasks of queue "+b.Queue,
		func(infos []*asynq.TaskInfo) error {
			return keepDead(ctx, s.Batches, b, infos)
		})
}

// keepDead stores the results of the archived tasks that belong to the batch and to its open round. The result of a
// forged task has the request of the round before, if there was one: it can be sent again.
func keepDead(ctx context.Context, store *batches.Store, b batches.Batch, infos []*asynq.TaskInfo) error {
	var results []batches.Result
	for _, info := range infos {
		ref, ok := batchref.Parse(info.ID)
		if !ok || ref.Batch != b.ID {
			continue
		}
		found, ended, err := store.Find(ctx, ref.Batch, ref.Line)
		if err != nil {
			return err
		}
		if ended || found.Round != ref.Round {
			continue
		}
		q, ok := chat.Request(info.Type, info.Payload)
		if !ok || q.Ref.TaskID() != info.ID || !q.Ref.SignedBy(b.Key) {
			found.Failure = &batches.Failure{
				Code: record.CodeFailed, Message: fmt.Sprintf("%v: task %s has its ID", record.ErrForged, info.ID),
			}
			found.Batch, found.Line, found.Usage, found.Attempts = b.ID, ref.Line, batches.Usage{}, nil // it has these
			results = append(results, found)
			continue
		}
		results = append(results, record.Failed(q, record.CodeFailed, archivedError(info.LastErr)))
	}
	return cmp.Or(store.FinishMany(ctx, results)...)
}

// archivedError is what asynq kept of the last failure.
type archivedError string

func (e archivedError) Error() string { return "the task was archived: " + string(e) }
