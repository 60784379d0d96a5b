package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/headway-go/headway/internal/register"
)

const (
	// agreeTimeout bounds one comparison of the store with the store of the fleet.
	agreeTimeout = 2 * time.Second
	// agreeSoon is the pause after a comparison that failed, agreeEvery the pause after others: Redis may have lost which
	// store it is.
	agreeSoon, agreeEvery = 5 * time.Second, time.Minute
)

// ErrSplit is matched if the limiter keeps its buckets in another store than the fleet: a *SplitError.
var ErrSplit = register.ErrSplit

// SplitError names both stores, without credentials. It matches ErrSplit.
type SplitError = register.SplitError

// agree compares the store of the limiter with the store of the fleet.
func (s *Scheduler) agree(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, agreeTimeout)
	defer cancel()
	own, err := s.limiter.Identity(ctx)
	if err != nil {
		return err
	}
	return s.register.Agree(ctx, register.RoleBuckets, own)
}

// agreeing repeats agree until ctx ends. While the stores differ, no limited task starts here.
func (s *Scheduler) agreeing(ctx context.Context) {
	if s.limiter == nil {
		return
	}
	if own, err := s.limiter.Identity(ctx); err == nil && own.ID == "" {
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
			s.limiter.Halt(err)
			s.config.Logger.LogAttrs(ctx, slog.LevelError, "no limited task starts in this process", slog.Any("error", err))
		case err != nil:
			next = agreeSoon
		default:
			s.limiter.Halt(nil)
		}
		pause.Reset(next)
	}
}
