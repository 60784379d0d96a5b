package scheduler

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/tasks"
)

// Enqueue sends one task. It runs as soon as a worker has room for it and its limit allows, unless its options give it
// a time. Fields that opts set override the options of the task's type, and later ones earlier ones.
//
// A task with a charge has its place in the waitlist of its bucket from now on. Tokens are reserved for it as far as
// max_reserved allows, and none if the bucket does not answer within a second. Info.NextProcessAt is when the task is
// expected to start. A Scheduler without a limiter sends the task as any other: it gets its place when a worker takes
// it.
//
// Nothing is enqueued if the arguments can't be encoded (tasks.ErrBadPayload), if the charge could never be served
// (reservations.IsPermanent), or if an option is invalid (tasks.ErrInvalidOptions). The same holds if the task exists
// already (asynq.ErrTaskIDConflict, *DuplicateError), or if it would start too late (*TooLateError). It holds as well
// if the task has a charge and the store is not that of the fleet (ErrSplit). After any other error, one of Redis, the
// task may or may not be enqueued: give it an ID and enqueue it again.
func (s *Scheduler) Enqueue(ctx context.Context, args tasks.Args, opts ...tasks.Options) (*asynq.TaskInfo, error) {
	return s.enqueueOne(ctx, args, nil, opts...)
}

// enqueueOne is Enqueue, also for the task of a tick.
func (s *Scheduler) enqueueOne(
	ctx context.Context, args tasks.Args, t *tick, opts ...tasks.Options,
) (*asynq.TaskInfo, error) {
	infos, err := s.enqueue(ctx, []tasks.Args{args}, t, opts)
	if item, ok := errors.AsType[*ItemError](err); ok {
		err = item.Err
	}
	if err != nil {
		return nil, err
	}
	return infos[0], nil
}

// EnqueueMany is Enqueue for several tasks, in few round trips. Tasks with a charge have their places in the order of
// args; others are sent side by side, and may change places.
//
// All tasks are checked before one is sent: then the error joins an *ItemError for each invalid task, with the errors
// of Enqueue. Once sending has begun, there is one info for each task, nil for a task that was not enqueued. The
// error then joins an *ItemError for each refused task. If Redis can't be reached, EnqueueMany stops there and leaves
// out the rest.
func (s *Scheduler) EnqueueMany(
	ctx context.Context, args []tasks.Args, opts ...tasks.Options,
) ([]*asynq.TaskInfo, error) {
	return s.enqueue(ctx, args, nil, opts)
}

func (s *Scheduler) enqueue(
	ctx context.Context, args []tasks.Args, t *tick, opts []tasks.Options,
) ([]*asynq.TaskInfo, error) {
	o, err := merged(opts, len(args))
	if err != nil {
		return nil, err
	}
	parcels, err := s.pack(args, o, t)
	if err != nil {
		return nil, err
	}
	if err := s.compare(ctx, parcels); err != nil {
		return nil, err
	}
	defer s.trace(ctx, parcels)()
	s.sendAll(ctx, parcels)
	return report(parcels)
}

// report returns the infos and the errors of the parcels.
func report(parcels []*dispatcher.Parcel) ([]*asynq.TaskInfo, error) {
	infos := make([]*asynq.TaskInfo, len(parcels))
	var faults []error
	left := 0
	for i, p := range parcels {
		infos[i] = p.Info
		switch {
		case p.Err == nil && p.Info == nil:
			left++
		case p.Err != nil && (!p.Options.SkipExisting || !exists(p.Err)):
			faults = append(faults, &ItemError{Index: i, Err: p.Err})
		}
	}
	if left > 0 && len(parcels) > 1 {
		faults = append(faults, fmt.Errorf("%d of %d tasks were not sent", left, len(parcels)))
	}
	return infos, errors.Join(faults...)
}

// pack encodes and checks all tasks.
func (s *Scheduler) pack(args []tasks.Args, o tasks.Options, t *tick) ([]*dispatcher.Parcel, error) {
	parcels := make([]*dispatcher.Parcel, len(args))
	var faults []error
	now := time.Now()
	for i, a := range args {
		e, err := envelope.Encode(a, o)
		if err == nil {
			err = errors.Join(s.check(e), checkStartBy(e.Options, now))
			if s.limiter == nil && len(e.Charges) > 0 {
				e.Task.Headers()[envelope.HeaderUnchecked] = "1"
			}
		}
		if err != nil {
			faults = append(faults, &ItemError{Index: i, Err: err})
			continue
		}
		parcels[i] = &dispatcher.Parcel{Envelope: e, Guard: guard(&e, t), Net: timeNet(e.Options.At, now)}
	}
	return parcels, errors.Join(faults...)
}

// check returns the first fault of what the task reserves or takes.
func (s *Scheduler) check(e envelope.Envelope) error {
	if s.limiter == nil {
		return nil
	}
	for _, c := range e.Charges {
		if err := s.limiter.Validate(c); err != nil {
			return fmt.Errorf("task %q: %w", e.Task.Type(), err)
		}
	}
	return nil
}

// guard lets asynq enqueue the task only if it is unique, and the first of its tick, where it has to be. Such a task
// has an ID from then on.
func guard(e *envelope.Envelope, t *tick) *asynqdb.Guard {
	g := &asynqdb.Guard{Queue: e.Options.Queue}
	if e.Options.Unique != "" {
		g.Unique = url.QueryEscape(e.Task.Type()) + ":" + e.Options.Unique // a type may hold a colon
	}
	if t != nil {
		g.Series, g.Tick = t.series, t.Tick
	}
	if e.Options.ID == "" && (g.Unique != "" || g.Series != "") {
		e.Options.ID = uuid.NewString()
	}
	return g
}
