package scheduler

import (
	"context"
	"log/slog"
	"slices"

	"github.com/headway-go/headway/internal/engine"
)

// reserveFirst is how many tasks are reserved at the beginning, and then twice as many each time: the first ones may
// start at once, and a full bucket loses what comes back while they are on their way.
const reserveFirst = 8

// sendReserved reserves and sends, a batch at a time, until something can't be reached.
func (s *Scheduler) sendReserved(ctx context.Context, parcels []*engine.Parcel) error {
	for n := reserveFirst; len(parcels) > 0; n = min(2*n, engine.ReserveTogether) {
		batch := parcels[:min(n, len(parcels))]
		parcels = parcels[len(batch):]
		err := s.sendBatch(ctx, batch)
		if err != nil || slices.ContainsFunc(batch, func(p *engine.Parcel) bool { return p.Err != nil && !alone(p.Err) }) {
			return err
		}
	}
	return nil
}

// sendBatch enqueues before the tasks join, so that the dispatcher finds them; until then asynq has each task at the
// time of its net. Reservations of tasks that were not enqueued are released.
func (s *Scheduler) sendBatch(ctx context.Context, batch []*engine.Parcel) error {
	err := s.engine.ReserveAll(ctx, batch)
	if err != nil {
		s.engine.ReleaseAll(ctx, batch)
		return err
	}
	s.refuseExpected(batch)
	s.send(ctx, batch)
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), engine.AfterTimeout)
	defer cancel()
	var unused []*engine.Parcel
	for _, p := range batch {
		if p.Info == nil && p.Held != nil {
			unused = append(unused, p)
		}
	}
	s.engine.ReleaseAll(after, unused)
	s.setTimers(after, batch)
	if err := s.engine.JoinAll(after, batch); err != nil { // asynq delivers them at their nets, as new ones
		s.config.Logger.WarnContext(ctx, "reserved tasks could not join their waitlists",
			slog.Int("tasks", len(batch)), slog.Any("error", err))
	}
	return nil
}
