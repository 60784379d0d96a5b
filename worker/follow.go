package worker

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/headway-go/headway/internal/pause"
	"github.com/headway-go/headway/reservations"
)

const (
	// FollowEveryDefault is how often overrides are looked for.
	FollowEveryDefault = 2 * time.Second
	// listTimeout bounds one look.
	listTimeout = 5 * time.Second
)

// overrides is Config.Overrides.
type overrides = func(context.Context) ([]reservations.Override, error)

// follower sets the limits of a limiter that change while the fleet runs. Waiting tasks start by the new ones. While
// overrides can't be read, the last known ones stay in force. Safe for concurrent use.
type follower struct {
	limiter *reservations.Limiter
	read    overrides // nil: only setLimits changes anything
	every   time.Duration
	log     *slog.Logger

	changing sync.Mutex              // held while the limiter's limits are changed; guards what is below
	list     []reservations.Override // what was read last

	unreadable bool // the last look of run has failed
}

// newFollower returns a follower that is not started; nil without a limiter. Of each interval, up to a fifth is left
// out so that processes do not ask together.
func newFollower(
	limiter *reservations.Limiter, read overrides, every time.Duration, log *slog.Logger,
) *follower {
	if limiter == nil {
		return nil
	}
	return &follower{limiter: limiter, read: read, every: cmp.Or(max(0, every), FollowEveryDefault), log: log}
}

// load reads the overrides once and puts them in force. The error says that they could not be read: then no task may
// start, because its limit may have been lowered. Faulty overrides are logged.
func (f *follower) load(ctx context.Context) error {
	if f == nil || f.read == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	list, err := f.read(ctx)
	if list == nil && err != nil {
		return err
	}
	f.apply(ctx, list, err)
	return nil
}

// setLimits replaces the limits of the limiter, as its SetLimits does. Waiting tasks start by the new ones.
func (f *follower) setLimits(ctx context.Context, limits []reservations.Limit) error {
	if f == nil {
		return nil
	}
	f.changing.Lock()
	defer f.changing.Unlock()
	before := f.limiter.Limits()
	if err := f.limiter.SetLimits(limits); err != nil {
		return fmt.Errorf("change limits: %w", err)
	}
	f.logChanges(ctx, before, f.limiter.Limits())
	return nil
}

// run follows the overrides until ctx ends. If they can't be read, the last known ones stay.
func (f *follower) run(ctx context.Context) {
	if f == nil || f.read == nil { // only setLimits changes anything
		return
	}
	for {
		jitter := time.Duration(rand.Float64() * float64(f.every) / 5) //nolint:gosec // needs no secrecy
		if pause.For(ctx, f.every-jitter) != nil {
			return
		}
		switch err := f.load(ctx); {
		case ctx.Err() != nil:
		case err != nil && !f.unreadable:
			const text = "overrides can't be read, the last known stay in force"
			f.log.LogAttrs(ctx, slog.LevelWarn, text, slog.Any("error", err))
			f.unreadable = true
		case err == nil && f.unreadable:
			f.log.LogAttrs(ctx, slog.LevelInfo, "overrides can be read again")
			f.unreadable = false
		}
	}
}

// apply puts the list in force where it is another than before. Fault is about what could not be read of it.
func (f *follower) apply(ctx context.Context, list []reservations.Override, fault error) {
	f.changing.Lock()
	defer f.changing.Unlock()
	if slices.EqualFunc(list, f.list, sameOverride) {
		return
	}
	f.list = list
	before := f.limiter.Limits()
	err := f.limiter.SetOverrides(list)
	for _, err := range []error{fault, err} {
		if err != nil {
			f.log.LogAttrs(ctx, slog.LevelWarn, "some overrides are not in force", slog.Any("error", err))
		}
	}
	f.logChanges(ctx, before, f.limiter.Limits())
}

// sameOverride says whether two overrides are the same. NaN equals NaN, so that it is logged once.
func sameOverride(a, b reservations.Override) bool {
	for _, o := range []*reservations.Override{&a, &b} {
		if math.IsNaN(o.Rate) {
			o.Rate = math.Inf(-1)
		}
		if math.IsNaN(o.Capacity) {
			o.Capacity = math.Inf(-1)
		}
	}
	return a == b
}
