// Package requests finds the tasks of batch requests: by the custom_id of a request, or the next one of a batch. It
// takes the requests of a cancelled batch back.
package requests

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/text/batchref"
)

// ErrUnknown is returned for a request that is neither stored nor in the queue.
var ErrUnknown = errors.New("no such request")

// chunk is how many tasks are read together.
const chunk = 500

// Finder looks requests up in the records and in the queue.
type Finder struct {
	Store *batches.Store
	Queue redis.UniversalClient
}

// Named returns the task of the request with this custom_id. The error matches [ErrUnknown] if there is none. A
// request that has no result and no attempt is found by reading the tasks of the batch.
func (f Finder) Named(ctx context.Context, b batches.Batch, customID string) (batchref.Ref, error) {
	r, found, err := f.Store.FindNamed(ctx, b.ID, customID)
	if err != nil || found {
		return batchref.Ref{Batch: b.ID, Line: r.Line, Round: r.Round}, err
	}
	ref, found, err := f.first(ctx, b, func(payload []byte) bool { return CustomID(payload) == customID })
	if err == nil && !found {
		err = fmt.Errorf("%w: batch %s has no request with the custom_id %.200q that has a result or is in the queue",
			ErrUnknown, b.ID, customID)
	}
	return ref, err
}

// Next returns the first task of the batch that has no result and is in the queue.
func (f Finder) Next(ctx context.Context, b batches.Batch) (ref batchref.Ref, found bool, err error) {
	return f.first(ctx, b, func([]byte) bool { return true })
}

// Chunk is some lines of a batch, up to line To: how many have a result, and the tasks of the others.
type Chunk struct {
	To, Ended int
	Refs      []batchref.Ref
	IDs       []string // of Refs
}

// Chunks reads the lines of a batch in order. An error is the last value.
func (f Finder) Chunks(ctx context.Context, b batches.Batch) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		for from := 1; from <= b.Lines; from += chunk {
			c := Chunk{To: min(b.Lines, from+chunk-1)}
			known, err := f.Store.Lines(ctx, b.ID, from, c.To)
			if err != nil {
				yield(c, err)
				return
			}
			for line := from; line <= c.To; line++ {
				if known.Ended(line) {
					c.Ended++
					continue
				}
				ref := batchref.Ref{Batch: b.ID, Line: line, Round: known.Round(line)}
				c.Refs, c.IDs = append(c.Refs, ref), append(c.IDs, ref.TaskID())
			}
			if !yield(c, nil) {
				return
			}
		}
	}
}

// Taken is what became of a chunk of a cancelled batch.
type Taken struct {
	Chunk

	// Withdrawn are the requests that were deleted from the queue. Rest are the IDs of the tasks that were neither deleted
	// nor had a result: they run, or are not in the queue.
	Withdrawn []batches.Named
	Rest      []string
}

// Withdraw deletes tasks that wait, as Scheduler.Delete does.
type Withdraw func(ctx context.Context, queue string, ids ...string) ([]*asynq.Task, error)

// TakeBack deletes the waiting requests of a batch that was cancelled or has expired, releases what they reserved, and
// stores their names. An error is the last value.
func (f Finder) TakeBack(ctx context.Context, b batches.Batch, withdraw Withdraw) iter.Seq2[Taken, error] {
	return func(yield func(Taken, error) bool) {
		for c, err := range f.Chunks(ctx, b) {
			taken := Taken{Chunk: c}
			if err == nil && len(c.IDs) > 0 {
				var tasks []*asynq.Task
				tasks, err = withdraw(ctx, b.Queue, c.IDs...)
				for i, task := range tasks {
					if task == nil {
						taken.Rest = append(taken.Rest, c.IDs[i])
						continue
					}
					named := batches.Named{Line: c.Refs[i].Line, CustomID: CustomID(task.Payload())}
					taken.Withdrawn = append(taken.Withdrawn, named)
				}
				err = cmp.Or(err, f.Store.Name(context.WithoutCancel(ctx), b.ID, taken.Withdrawn))
			}
			if !yield(taken, err) || err != nil {
				return
			}
		}
	}
}

// first returns the first task in the queue whose request has no result, and whose payload is the wanted one.
func (f Finder) first(
	ctx context.Context, b batches.Batch, wanted func(payload []byte) bool,
) (ref batchref.Ref, found bool, err error) {
	queue := asynqdb.New(f.Queue)
	for c, err := range f.Chunks(ctx, b) {
		if err != nil {
			return ref, false, err
		}
		read, err := queue.Read(ctx, b.Queue, c.IDs)
		if err != nil {
			return ref, false, err
		}
		for i, task := range read {
			if task != nil && wanted(task.Payload()) {
				return c.Refs[i], true, nil
			}
		}
	}
	return ref, false, nil
}

// CustomID returns the custom_id in the payload of a task, whatever its type.
func CustomID(payload []byte) string {
	var request struct {
		CustomID string `json:"custom_id"`
	}
	_ = json.Unmarshal(payload, &request) // a task of a batch has one
	return request.CustomID
}
