package worker

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/headway-go/headway/internal/calls/pause"
	"github.com/headway-go/headway/internal/fleet/settings"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/reservations"
)

// listTimeout bounds one look for overrides.
const listTimeout = 5 * time.Second

// overrides is Config.Overrides.
type overrides = func(context.Context) ([]reservations.Override, error)

// follower puts the overrides in force that change while the fleet runs, and logs each change of the limits. Waiting
// tasks start by the new ones. While overrides can't be read, the last known ones stay in force. Safe for concurrent
// use.
type follower struct {
	limiter *reservations.Limiter
	read    overrides // nil: only Limiter.SetLimits changes anything
	every   time.Duration
	log     *slog.Logger
	logged  limitSet // as of the last change: they come one at a time
	unlog   func()   // ends the logging of changes

	changing sync.Mutex              // held while overrides are changed; guards list
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
	f := &follower{limiter: limiter, read: read, every: cmp.Or(max(0, every), settings.FollowEvery), log: log}
	f.logged = inside.Of(limiter).Limits()
	f.unlog = inside.Of(limiter).OnChange(func() {
		before, after := f.logged, inside.Of(limiter).Limits()
		f.logged = after
		f.logChanges(before, after)
	})
	return f
}

// stop ends the logging of changes.
func (f *follower) stop() {
	if f != nil {
		f.unlog()
	}
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

// run follows the overrides until ctx ends. If they can't be read, the last known ones stay.
func (f *follower) run(ctx context.Context) {
	if f == nil || f.read == nil { // only Limiter.SetLimits changes anything
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
	err := inside.Of(f.limiter).SetOverrides(list)
	for _, err := range []error{fault, err} {
		if err != nil {
			f.log.LogAttrs(ctx, slog.LevelWarn, "some overrides are not in force", slog.Any("error", err))
		}
	}
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
