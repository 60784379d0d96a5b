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

	"github.com/headway-go/headway/reservations"
)

const (
	// FollowEveryDefault is how often overrides are looked for.
	FollowEveryDefault = 2 * time.Second
	// listTimeout bounds one look.
	listTimeout = 5 * time.Second
)

// Overrides stores rates that were set while the fleet runs, e.g. *mongostore.Overrides. Must be safe for concurrent
// use.
type Overrides interface {
	// List returns all overrides. With an error, the list holds the readable ones, and is nil if none could be read:
	// then the last known ones stay in force.
	List(ctx context.Context) ([]reservations.Override, error)
}

// follower sets the limits of a limiter that change while the fleet runs. Waiting tasks start by the new ones. While
// overrides can't be read, the last known ones stay in force. Safe for concurrent use.
type follower struct {
	limiter *reservations.Limiter
	source  Overrides // nil: only setLimits changes anything
	every   time.Duration
	log     *slog.Logger

	mu  sync.Mutex // guards what is below; held by start and stop until they return
	end func()     // ends the following and waits for it; nil when none runs

	changing sync.Mutex              // held while the limiter's limits are changed; guards what is below
	list     []reservations.Override // what was read last

	// What is below belongs to the goroutine of run, and to Start before it.
	unreadable bool // the last look has failed
}

// newFollower returns a follower that is not started; nil without a limiter. Of each interval, up to a fifth is left
// out so that processes do not ask together.
func newFollower(
	limiter *reservations.Limiter, source Overrides, every time.Duration, log *slog.Logger,
) *follower {
	if limiter == nil {
		return nil
	}
	return &follower{limiter: limiter, source: source, every: cmp.Or(max(0, every), FollowEveryDefault), log: log}
}

// load reads the overrides once and puts them in force. The error says that they could not be read: then no task may
// start, because its limit may have been lowered. Faulty overrides are logged.
func (f *follower) load(ctx context.Context) error {
	if f.source == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	list, err := f.source.List(ctx)
	if list == nil && err != nil {
		return fmt.Errorf("read overrides: %w", err)
	}
	f.apply(ctx, list, err)
	return nil
}

// start loads the overrides and then follows them until stop. If load fails, its error is returned and nothing is
// started. Of ctx only the values are kept after that. Starting twice does nothing.
func (f *follower) start(ctx context.Context) error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.end != nil {
		return nil
	}
	if err := f.load(ctx); err != nil {
		return err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	if f.source == nil {
		f.end = cancel // only setLimits changes anything
		return nil
	}
	done := make(chan struct{})
	f.end = func() { cancel(); <-done }
	go func() {
		defer close(done)
		f.run(running)
	}()
	return nil
}

// stop ends the following. It may be called twice, and without start.
func (f *follower) stop() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.end != nil {
		f.end()
		f.end = nil
	}
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

func (f *follower) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		jitter := time.Duration(rand.Float64() * float64(f.every) / 5) //nolint:gosec // needs no secrecy
		timer.Reset(f.every - jitter)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			f.look(ctx)
		}
	}
}

// look reads the overrides. If it can't, the last known ones stay.
func (f *follower) look(ctx context.Context) {
	asking, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	list, err := f.source.List(asking)
	switch failed := list == nil && err != nil; {
	case ctx.Err() != nil:
	case failed && !f.unreadable:
		f.unreadable = true
		const text = "overrides can't be read, the last known stay in force"
		f.log.LogAttrs(ctx, slog.LevelWarn, text, slog.Any("error", err))
	case failed:
	default:
		if f.unreadable {
			f.unreadable = false
			f.log.LogAttrs(ctx, slog.LevelInfo, "overrides can be read again")
		}
		f.apply(ctx, list, err)
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
