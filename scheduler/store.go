package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/dispatcher"
)

const (
	// agreeTimeout bounds one comparison of the store with the store of the fleet.
	agreeTimeout = 2 * time.Second
	// agreeSoon is the pause after a comparison that failed, agreeEvery the pause after others: Redis may have lost which
	// store it is.
	agreeSoon, agreeEvery = 5 * time.Second, time.Minute
)

// ErrSplit is matched if the limiter keeps its buckets in another store than the fleet. The error names both
// stores, without credentials.
var ErrSplit = register.ErrSplit

// agree compares the store of the limiter with the store of the fleet.
func (s *Scheduler) agree(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, agreeTimeout)
	defer cancel()
	own, err := inside.Of(s.limiter).Identity(ctx)
	if err != nil {
		return err
	}
	return s.register.Agree(ctx, register.RoleBuckets, own)
}

// compare is agree before charged tasks are enqueued by a scheduler that was not started: they reserve in the store. It
// repeats that after a minute, and after some seconds if the store or Redis did not answer. The error matches ErrSplit.
func (s *Scheduler) compare(ctx context.Context, parcels []*dispatcher.Parcel) error {
	charged := func(p *dispatcher.Parcel) bool { return len(p.Charges) > 0 }
	if s.limiter == nil || s.started.Load() || time.Now().UnixNano() < s.compareAt.Load() ||
		!slices.ContainsFunc(parcels, charged) {
		return nil
	}
	err := s.agree(ctx)
	switch {
	case errors.Is(err, ErrSplit):
		return err
	case err != nil:
		s.compareAt.Store(time.Now().Add(agreeSoon).UnixNano())
	default:
		s.compareAt.Store(time.Now().Add(agreeEvery).UnixNano())
	}
	return nil
}

// agreeing repeats agree until ctx ends. While the stores differ, no limited task starts here.
func (s *Scheduler) agreeing(ctx context.Context) {
	if s.limiter == nil {
		return
	}
	if own, err := inside.Of(s.limiter).Identity(ctx); err == nil && own.ID == "" {
		return // there is nothing to compare
	}
	pause := time.NewTimer(agreeSoon)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		err := s.agree(ctx)
		next := agreeEvery
		switch {
		case errors.Is(err, ErrSplit):
			inside.Of(s.limiter).Halt(err)
			s.config.Logger.LogAttrs(ctx, slog.LevelError, "no limited task starts in this process", slog.Any("error", err))
		case err != nil:
			next = agreeSoon
		default:
			inside.Of(s.limiter).Halt(nil)
		}
		pause.Reset(next)
	}
}
