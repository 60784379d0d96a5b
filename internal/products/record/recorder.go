// Package record stores the results of batch requests for the handlers of a worker. It writes the result of a request
// before asynq receives the end of its task.
//
// A worker may die at any point, and its task is delivered again. If the worker dies before the result is written,
// the next delivery makes the call again. If it dies later, the next delivery finds the result and makes no call.
package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/api/httpcall"
	"github.com/headway-go/headway/internal/calls/bounded"
	"github.com/headway-go/headway/internal/calls/coalesce"
	"github.com/headway-go/headway/internal/calls/pause"
	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/products/requests"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

const (
	// grace is how long Run still tries to write a result after the time of its task has ended.
	grace = 5 * time.Second
	// notePatience bounds the write of a failed attempt, because the next attempt matters more.
	notePatience = 5 * time.Second
	pauseMin     = 100 * time.Millisecond
	pauseMax     = 5 * time.Second
)

// ErrCancelled is the reason why a task of a cancelled batch is dropped.
var ErrCancelled = errors.New("its batch was cancelled")

// ErrForged is why a task is archived if its payload names a request of a batch that did not enqueue it. The end of
// such a task changes no result.
var ErrForged = errors.New("the task was not enqueued as this request of a batch")

// Recorder writes the results of one worker process. It is safe for concurrent use.
type Recorder struct {
	store  *batches.Store
	writer *writer
	log    *slog.Logger
	states states

	// read returns the request in the payload of a task.
	read    func(taskType string, payload []byte) (Request, bool)
	written sync.Map // IDs of tasks whose results are written, until Event
}

// New returns a Recorder that writes to store. Read returns the request in the payload of a task, or false for a task
// without a batch. Close the Recorder before you disconnect the client of the store.
func New(
	store *batches.Store, log *slog.Logger, read func(taskType string, payload []byte) (Request, bool),
) *Recorder {
	return &Recorder{
		store: store, writer: newWriter(store.FinishMany), log: log, read: read,
		states: states{
			store: store, known: bounded.Map[string, state]{Most: statesKept},
			counters: bounded.Map[string, *batches.Counter]{Most: countersKept}, stopped: func(batches.Batch) {},
		},
	}
}

// TakeBack has the waiting requests of each batch that this Recorder stops deleted from the queue, until ctx ends. What
// is left there is dropped as workers receive it. Withdraw is that of a Scheduler. Call TakeBack before the first Run.
func (r *Recorder) TakeBack(ctx context.Context, queue redis.UniversalClient, withdraw requests.Withdraw) {
	finder := requests.Finder{Store: r.store, Queue: queue}
	r.states.stopped = func(b batches.Batch) {
		said := []any{slog.String("batch", b.ID), slog.String("file", b.Name), slog.Int("max_failures", b.FailuresMost)}
		r.log.WarnContext(ctx, "a batch has stopped at its failed requests", said...)
		for _, err := range finder.TakeBack(ctx, b, withdraw) {
			if err != nil {
				r.log.WarnContext(ctx, "requests of a stopped batch are still in the queue, and are dropped one by one",
					append(said, slog.Any("error", err))...)
			}
		}
	}
}

// Close refuses further results, and returns after the running round trips.
func (r *Recorder) Close() {
	r.states.asks.Wait()
	r.writer.Close()
}

// Attempt is one delivery of a task whose handler runs.
type Attempt struct {
	ID       string // the task's ID
	Number   int    // from 1
	MaxRetry int    // a failure of a later attempt is final
	// Reserved are the tokens charged for the attempt.
	Reserved float64
	// Unused is called if no call is made: the charge is not used.
	Unused func()
}

// Answer is the good answer of an API.
type Answer struct {
	batches.Response

	Usage batches.Usage // without Reserved
}

// Run makes the call of a batch request and writes its result. Then it returns the error for the handler to return.
//
// Run makes no call for a request that has a result, nor for a request of a cancelled batch. A success, a permanent
// failure, and the failure of the last attempt are results. Run stores other failures as attempts, except refusals.
// While the database does not answer, Run waits for it until ctx ends: after a failure the call
// would be made, and paid, again.
func (r *Recorder) Run(ctx context.Context, a Attempt, q Request, call func(context.Context) (Answer, error)) error {
	if err := r.needless(ctx, a, q); err != nil {
		a.Unused()
		if errors.Is(err, errEnded) {
			return nil
		}
		return httpcall.NotCalled(err)
	}
	began := time.Now()
	answer, err := call(ctx)
	if err == nil {
		result := q.result()
		result.Response, result.Usage = &answer.Response, answer.Usage
		result.Usage.Reserved = a.Reserved
		return r.finish(ctx, result)
	}
	attempt := batches.Attempt{At: began, Error: err.Error()}
	if came := answerIn(err); came != nil {
		attempt.StatusCode = came.StatusCode
	}
	permanent := errors.Is(err, tasks.ErrPermanent)
	_, refused := errors.AsType[*reservations.RetryAfterError](err)
	switch {
	case permanent, !refused && a.Number > a.MaxRetry && !errors.Is(ctx.Err(), context.Canceled):
		result := Failed(q, codeOf(err), err)
		result.Attempts = []batches.Attempt{attempt}
		if failed := r.finish(ctx, result); failed != nil {
			return fmt.Errorf("%w; the call had failed: %v", failed,
				err) //nolint:errorlint // a permanent error inside must not archive the task
		}
		r.written.Store(a.ID, true)
	case refused, errors.Is(ctx.Err(), context.Canceled): // the task waits, or the worker stops
	default:
		r.note(ctx, q, attempt)
	}
	return err
}

func codeOf(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return CodeTimeout
	}
	return CodeFailed
}

// errEnded means that the request has a result, or was put back meanwhile.
var errEnded = errors.New("the request has a result")

// genuine returns an error that matches ErrForged, and is permanent, unless the task is the request that its payload
// names: it has the request's ID, and the mark that only an enqueuer of the batch can make. The key of a batch costs a
// process one round trip.
func (r *Recorder) genuine(ctx context.Context, task string, q Request) error {
	forged := func(why string) error {
		return tasks.Permanent(fmt.Errorf("%w: line %d of batch %.100q: %s", ErrForged, q.Ref.Line, q.Ref.Batch, why))
	}
	if task != q.Ref.TaskID() {
		return forged("another task has the ID of that request")
	}
	return r.patiently(ctx, func(ctx context.Context) error {
		there, signed, err := r.states.signed(ctx, q.Ref)
		switch {
		case err != nil:
			return err
		case !there:
			return forged("there is no such batch")
		case !signed:
			return forged("its mark is missing or wrong")
		}
		return nil
	})
}

// needless returns an error if no call must be made. It looks up only tasks that were delivered before, because that
// costs a round trip before the call.
func (r *Recorder) needless(ctx context.Context, a Attempt, q Request) error {
	if err := r.genuine(ctx, a.ID, q); err != nil {
		return err
	}
	if r.states.cancelled(q.Ref.Batch) { //nolint:contextcheck // the query runs in the background
		if err := r.drop(ctx, q); err != nil {
			return err
		}
	}
	if a.Number <= 1 {
		return nil
	}
	return r.patiently(ctx, func(ctx context.Context) error {
		found, ok, err := r.store.Find(ctx, q.Ref.Batch, q.Ref.Line)
		if err == nil && (ok || found.Round > q.Ref.Round) {
			return errEnded
		}
		return err
	})
}

// drop stores the name of a request of a cancelled batch, for its results. First it checks whether the batch was
// opened again.
func (r *Recorder) drop(ctx context.Context, q Request) error {
	return r.patiently(ctx, func(ctx context.Context) error {
		cancelled, err := r.states.ask(ctx, q.Ref.Batch)
		if err != nil || !cancelled {
			return err
		}
		if err := r.store.Name(ctx, q.Ref.Batch,
			[]batches.Named{{Line: q.Ref.Line, CustomID: q.CustomID}}); err != nil {
			return err
		}
		return fmt.Errorf("line %d of %s: %w: %w", q.Ref.Line, q.Ref.Batch, ErrCancelled, asynq.RevokeTask)
	})
}

// finish writes a result. It retries while the database is down.
func (r *Recorder) finish(ctx context.Context, result batches.Result) error {
	result.Finished = time.Now()
	err := r.patiently(ctx, func(ctx context.Context) error {
		stored, err := r.writer.Do(ctx, struct{}{}, result) // if ctx ends, the result may still be stored
		return cmp.Or(append(stored, err)...)
	})
	if err != nil {
		return fmt.Errorf("store the result of line %d of batch %s: %w", result.Line, result.Batch, err)
	}
	if result.Failed() {
		r.states.failed(result.Batch) //nolint:contextcheck // it counts in the background
	}
	return nil
}

// note stores a failed attempt. It does not retry.
func (r *Recorder) note(ctx context.Context, q Request, attempt batches.Attempt) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), notePatience)
	defer cancel()
	if err := r.store.Attempt(ctx, q.Ref.Batch, q.Ref.Line, q.CustomID, attempt); err != nil {
		r.log.WarnContext(ctx, "failed attempt not stored", slog.String("batch", q.Ref.Batch),
			slog.Int("line", q.Ref.Line), slog.Any("error", err))
	}
}

// patiently repeats do while the database is down, until a short time after the end of ctx.
func (r *Recorder) patiently(ctx context.Context, do func(context.Context) error) error {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(grace, cancel)
		context.AfterFunc(lasting, func() { timer.Stop() })
	})
	defer stop()
	var last error
	away := pause.Until(lasting, pauseMin, pauseMax, func() error {
		if last = do(lasting); errors.Is(last, batches.ErrUnavailable) {
			return last
		}
		return nil
	})
	return cmp.Or(away, last)
}

const (
	// writeBytes bounds the bodies and requests in one round trip, before compression. A larger result has a round
	// trip of its own.
	writeBytes   = 8_000_000
	writeTimeout = 30 * time.Second
)

// newWriter lets handlers that end at the same moment share a round trip to the database. finishMany is the method of
// batches.Store.
func newWriter(finishMany func(context.Context, []batches.Result) []error) *writer {
	return &writer{
		Size: sizeOf, MaxSize: writeBytes, Timeout: writeTimeout,
		Call: func(ctx context.Context, _ struct{}, results []batches.Result) ([]error, error) {
			return finishMany(ctx, results), nil
		},
	}
}

type writer = coalesce.Group[struct{}, batches.Result, error]

func sizeOf(r batches.Result) int {
	if r.Response == nil {
		return len(r.Request)
	}
	return len(r.Request) + len(r.Response.Body)
}
