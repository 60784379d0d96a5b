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

// FollowConfig holds the settings of a Follower. The zero value is ready to use.
type FollowConfig struct {
	// Every is how often overrides are looked for, less up to a fifth so that processes do not ask together. Defaults
	// to 2 seconds.
	Every time.Duration
	// Logger gets a line for each change, and at the begin and the end of a time in which overrides can't be read.
	// Defaults to slog.Default().
	Logger *slog.Logger
}

// Follower sets the limits of a limiter that change while the fleet runs. Waiting tasks start by the new ones. A
// Worker has one of its own; a program that adopts Headway starts one after Limits and stops it before. While
// overrides can't be read, the last known ones stay in force. Safe for concurrent use.
type Follower struct {
	limiter *reservations.Limiter
	source  Overrides // nil: only SetLimits changes anything
	config  FollowConfig

	mu   sync.Mutex // guards what is below; held by Start and Stop until they return
	stop func()     // ends the following and waits for it; nil when none runs

	changing sync.Mutex              // held while the limiter's limits are changed; guards what is below
	list     []reservations.Override // what was read last

	// What is below belongs to the goroutine of run, and to Start before it.
	unreadable bool // the last look has failed
}

// NewFollower returns a Follower that is not started. A nil source has no overrides: then it only sees to SetLimits.
func NewFollower(limiter *reservations.Limiter, source Overrides, config FollowConfig) *Follower {
	config.Every = cmp.Or(max(0, config.Every), FollowEveryDefault)
	config.Logger = cmp.Or(config.Logger, slog.Default())
	return &Follower{limiter: limiter, source: source, config: config}
}

// Load reads the overrides once and puts them in force. The error says that they could not be read: then no task may
// start, because its limit may have been lowered. Faulty overrides are logged. Producers that reserve tokens need no
// more than this.
func (f *Follower) Load(ctx context.Context) error {
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

// Start loads the overrides and then follows them until Stop. If Load fails, its error is returned and nothing is
// started. Of ctx only the values are kept after that. Starting twice does nothing.
func (f *Follower) Start(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stop != nil {
		return nil
	}
	if err := f.Load(ctx); err != nil {
		return err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	if f.source == nil {
		f.stop = cancel // only SetLimits changes anything
		return nil
	}
	done := make(chan struct{})
	f.stop = func() { cancel(); <-done }
	go func() {
		defer close(done)
		f.run(running)
	}()
	return nil
}

// Stop ends the following. It may be called twice, and without Start.
func (f *Follower) Stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stop != nil {
		f.stop()
		f.stop = nil
	}
}

// SetLimits replaces the limits of the limiter, as its SetLimits does. Waiting tasks start by the new ones.
func (f *Follower) SetLimits(ctx context.Context, limits []reservations.Limit) error {
	f.changing.Lock()
	defer f.changing.Unlock()
	before := f.limiter.Limits()
	if err := f.limiter.SetLimits(limits); err != nil {
		return fmt.Errorf("change limits: %w", err)
	}
	f.logChanges(ctx, before, f.limiter.Limits())
	return nil
}

func (f *Follower) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		jitter := time.Duration(rand.Float64() * float64(f.config.Every) / 5) //nolint:gosec // needs no secrecy
		timer.Reset(f.config.Every - jitter)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			f.look(ctx)
		}
	}
}

// look reads the overrides. If it can't, the last known ones stay.
func (f *Follower) look(ctx context.Context) {
	asking, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	list, err := f.source.List(asking)
	switch failed := list == nil && err != nil; {
	case ctx.Err() != nil:
	case failed && !f.unreadable:
		f.unreadable = true
		const text = "overrides can't be read, the last known stay in force"
		f.config.Logger.LogAttrs(ctx, slog.LevelWarn, text, slog.Any("error", err))
	case failed:
	default:
		if f.unreadable {
			f.unreadable = false
			f.config.Logger.LogAttrs(ctx, slog.LevelInfo, "overrides can be read again")
		}
		f.apply(ctx, list, err)
	}
}

// apply puts the list in force where it is another than before. Fault is about what could not be read of it.
func (f *Follower) apply(ctx context.Context, list []reservations.Override, fault error) {
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
			f.config.Logger.LogAttrs(ctx, slog.LevelWarn, "some overrides are not in force", slog.Any("error", err))
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
