// Package record stands between the handlers of a worker and the place where the results of batches are kept: a request
// that belongs to a batch has its result written before asynq learns that its task has ended.
//
// A worker may die at any point. Where it dies before the result is written, the task is delivered again and the call
// is made again; where it dies afterwards, the task is delivered again, the result is found, and no call is made.
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

	"github.com/headway-go/headway/internal/batches"
	"github.com/headway-go/headway/internal/coalesce"
	"github.com/headway-go/headway/internal/pause"
	"github.com/headway-go/headway/tasks"
)

const (
	// grace is how long a result is tried to be written when its task has no more time.
	grace = 5 * time.Second
	// notePatience bounds the note of a failed attempt: it is worth less than the attempt that follows.
	notePatience = 5 * time.Second
	pauseMin     = 100 * time.Millisecond
	pauseMax     = 5 * time.Second
)

// ErrCancelled is why a task of a batch that was cancelled is dropped.
var ErrCancelled = errors.New("its batch was cancelled")

// Recorder writes the results of one worker process. Safe for concurrent use.
type Recorder struct {
	store  *batches.Store
	writer *writer
	log    *slog.Logger
	states states

	// read is the request in a payload of each task type.
	read map[string]func(payload []byte) (Request, bool)
	told sync.Map // IDs of tasks whose end is written, until OnFinish
}

// New returns a Recorder that writes to store. Read says of each task type how the request is found in a payload; it is
// not ok where the task belongs to no batch. Close it before the client of the store is disconnected.
func New(store *batches.Store, log *slog.Logger, read map[string]func(payload []byte) (Request, bool)) *Recorder {
	return &Recorder{
		store: store, writer: newWriter(store.FinishMany), log: log, read: read,
		states: states{store: store},
	}
}

// Close refuses further results, and returns after the round trips that are under way.
func (r *Recorder) Close() {
	r.states.wait()
	r.writer.group.Close()
}

// Attempt is one delivery of a task whose handler runs.
type Attempt struct {
	ID       string // of the task
	Number   int    // 1 for the first
	MaxRetry int    // a failure of an attempt above it is final
	// Reserved are the tokens that were taken for it.
	Reserved float64
	// Unused is called when no call is made: what was taken is not used.
	Unused func()
}

// Answer is the good answer of an API.
type Answer struct {
	batches.Response

	Usage batches.Usage // but for Reserved
}

// Run makes the call of a request that belongs to a batch and writes how it went before it returns what the handler has
// to return.
//
// No call is made for a request that has a result already, nor for one whose batch was cancelled. A success, a failure
// that no retry mends, and the failure of the last attempt are results; other failures are noted as attempts, and
// refusals that named a time are not. While the database does not answer, Run waits for it until ctx ends: to fail
// would mean to ask, and to pay, once more.
func (r *Recorder) Run(ctx context.Context, a Attempt, q Request, call func(context.Context) (Answer, error)) error {
	if err := r.needless(ctx, a, q); err != nil {
		a.Unused()
		if errors.Is(err, errEnded) {
			return nil
		}
		return err
	}
	began := time.Now()
	answer, err := call(ctx)
	if err == nil {
		result := q.result()
		result.Response, result.Usage = &answer.Response, answer.Usage
		result.Usage.Reserved = a.Reserved
		return r.finish(ctx, result)
	}
	attempt := batches.Attempt{At: began, Elapsed: time.Since(began), Error: err.Error()}
	if came := answerIn(err); came != nil {
		attempt.StatusCode = came.StatusCode
	}
	permanent := errors.Is(err, tasks.ErrPermanent)
	_, refused := errors.AsType[*tasks.RetryAfterError](err)
	switch {
	case permanent, !refused && a.Number > a.MaxRetry && !errors.Is(ctx.Err(), context.Canceled):
		result := Failed(q, codeOf(err), err)
		result.Attempts = []batches.Attempt{attempt}
		if failed := r.finish(ctx, result); failed != nil {
			return fmt.Errorf("%w; the call had failed: %v", failed,
				err) //nolint:errorlint // what is permanent in it must not archive the task
		}
		r.told.Store(a.ID, true)
	case refused, errors.Is(ctx.Err(), context.Canceled): // it waits, or the worker stops
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

// errEnded says that the request has a result, or was put back since.
var errEnded = errors.New("the request has a result")

// needless says why no call is to be made. Only a task that was delivered before is looked up: it costs a round trip
// between the start and the call.
func (r *Recorder) needless(ctx context.Context, a Attempt, q Request) error {
	if r.states.cancelled(q.Ref.Batch) { //nolint:contextcheck // it asks in the background
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

// drop stores the name of a request of a cancelled batch, for its results. It asks first whether the batch was opened
// again.
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

// finish writes a result, again and again while the database is away.
func (r *Recorder) finish(ctx context.Context, result batches.Result) error {
	result.Finished = time.Now()
	err := r.patiently(ctx, func(ctx context.Context) error { return r.writer.finish(ctx, result) })
	if err != nil {
		return fmt.Errorf("keep the result of line %d of batch %s: %w", result.Line, result.Batch, err)
	}
	return nil
}

// note writes down a failed attempt, once.
func (r *Recorder) note(ctx context.Context, q Request, attempt batches.Attempt) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), notePatience)
	defer cancel()
	if err := r.store.Attempt(ctx, q.Ref.Batch, q.Ref.Line, q.CustomID, attempt); err != nil {
		r.log.WarnContext(ctx, "failed attempt not noted", slog.String("batch", q.Ref.Batch),
			slog.Int("line", q.Ref.Line), slog.Any("error", err))
	}
}

// patiently repeats do while the database is away, until ctx has ended and a little longer.
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
	// writeBytes bounds the bodies and requests in one round trip, before compression. One larger result goes alone.
	writeBytes   = 8_000_000
	writeTimeout = 30 * time.Second
)

// writer lets handlers that end at the same moment share a round trip to the database.
type writer struct {
	group coalesce.Group[struct{}, batches.Result, batches.Outcome]
}

// newWriter returns a writer of results. The function is that of batches.Store.
func newWriter(finishMany func(context.Context, []batches.Result) []batches.Outcome) *writer {
	w := &writer{}
	w.group.Size, w.group.MaxSize, w.group.Timeout = sizeOf, writeBytes, writeTimeout
	w.group.Call = func(ctx context.Context, _ struct{}, results []batches.Result) ([]batches.Outcome, error) {
		return finishMany(ctx, results), nil
	}
	return w
}

func sizeOf(r batches.Result) int {
	if r.Response == nil {
		return len(r.Request)
	}
	return len(r.Request) + len(r.Response.Body)
}

// finish stores one result. When ctx ends during the round trip, the result may be stored nevertheless.
func (w *writer) finish(ctx context.Context, r batches.Result) error {
	outcomes, err := w.group.Do(ctx, struct{}{}, r)
	if err != nil {
		return err
	}
	return outcomes[0].Err
}
