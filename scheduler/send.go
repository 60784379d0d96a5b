package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"golang.org/x/sync/errgroup"

	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/internal/line/envelope"
)

const (
	// sendTogether is how many tasks are sent to asynq side by side: they share round trips. More of them would need more
	// connections before the first answer.
	sendTogether = 8
	// sendFirst is how many tasks get their places first, and then twice as many each time: the first ones may start at
	// once, and a full bucket loses what comes back while they are on their way.
	sendFirst = 8
)

// sendAll sends the parcels in their order, a batch at a time, until something can't be reached.
func (s *Scheduler) sendAll(ctx context.Context, parcels []*dispatcher.Parcel) {
	for n, reached := sendFirst, true; len(parcels) > 0 && reached; n = min(2*n, dispatcher.PlaceTogether) {
		batch := parcels[:min(n, len(parcels))]
		parcels = parcels[len(batch):]
		reached = s.sendBatch(ctx, batch)
	}
}

// sendBatch enqueues the tasks before they join their waitlists, so that the dispatcher finds them. Until then asynq
// has each task at the time of its net. Reservations of tasks that were not enqueued are released.
func (s *Scheduler) sendBatch(ctx context.Context, batch []*dispatcher.Parcel) (reached bool) {
	s.dispatcher.Place(ctx, batch)
	now := time.Now()
	for _, p := range batch {
		p.Err = s.tooLate(p, now)
	}
	reached = s.send(ctx, batch)
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), dispatcher.AfterTimeout)
	defer cancel()
	var unused []*dispatcher.Parcel
	for _, p := range batch {
		if p.Info == nil {
			unused = append(unused, p)
		}
	}
	s.dispatcher.ReleaseAll(after, unused)
	s.setTimers(after, batch)
	if err := s.dispatcher.Join(after, batch); err != nil {
		s.config.Logger.WarnContext(ctx, "tasks could not join their waitlists, asynq delivers them later",
			slog.Int("tasks", len(batch)), slog.Any("error", err))
	}
	return reached
}

// send enqueues the parcels, several side by side. Each parcel gets its own error. The first error that is not about
// the task itself ends the sending.
func (s *Scheduler) send(ctx context.Context, parcels []*dispatcher.Parcel) (reached bool) {
	var stopped atomic.Bool
	var senders errgroup.Group
	senders.SetLimit(sendTogether)
	for _, p := range parcels {
		senders.Go(func() error {
			if p.Err == nil && !stopped.Load() {
				p.Err = s.sendOne(ctx, p)
			}
			if p.Err != nil && !alone(p.Err) {
				stopped.Store(true)
			}
			return nil
		})
	}
	_ = senders.Wait() // each parcel has its own error
	return !stopped.Load()
}

// sendOne enqueues one parcel.
func (s *Scheduler) sendOne(ctx context.Context, p *dispatcher.Parcel) error {
	p.Guard.ID = p.Options.ID
	options := envelope.Asynq(p.Options)
	if !p.Net.IsZero() {
		options = append(options, asynq.ProcessAt(p.Net))
	}
	info, err := s.client.EnqueueContext(asynqdb.WithGuard(ctx, p.Guard), p.Task, options...)
	if err != nil && p.Guard.Holder != "" {
		err = &DuplicateError{Key: p.Options.Unique, Queue: p.Guard.Queue, ID: p.Guard.Holder}
	}
	if ended := ctx.Err(); ended != nil && err != nil && !alone(err) {
		err = ended // asynq has only its text
	}
	if err != nil {
		return fmt.Errorf("enqueue task %q: %w", p.Task.Type(), err)
	}
	p.Info = info
	return nil
}

// exists says whether the task was refused because it exists already.
func exists(err error) bool {
	_, duplicate := errors.AsType[*DuplicateError](err)
	return duplicate || errors.Is(err, asynq.ErrTaskIDConflict)
}
