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

// Overrides is where the rates are kept that were set while the fleet runs, e.g. *mongostore.Overrides. Must be safe for concurrent use.
type Overrides interface {
	// List returns all of them. With an error, the list holds those that could be read, and is nil when none could: then what was
	// read before stays in force.
	List(ctx context.Context) ([]reservations.Override, error)
}

// FollowConfig is what a Follower may be told. The zero value is fine.
type FollowConfig struct {
	// Every is how often overrides are looked for, less up to a fifth so that processes do not ask together. Defaults to 2 seconds.
	Every time.Duration
	// Logger is told of each change, and when overrides can't be read and can again. Defaults to slog.Default().
	Logger *slog.Logger
}

// Follower keeps a limiter at the limits that are set while the fleet runs, and moves the tasks that wait when a limit has changed. A
// Worker has one of its own; a program that adopts Headway starts one after Limits and stops it before. While overrides can't
// be read, those that were read last stay in force. Safe for concurrent use.
type Follower struct {
	limiter *reservations.Limiter
	source  Overrides // nil: only SetLimits changes anything
	config  FollowConfig

	mu   sync.Mutex // guards what is below; held by Start and Stop all the way
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

// Load reads the overrides once and puts them in force. The error says that they could not be read: then no task may start, for nobody
// knows whether its limit was lowered. Overrides that can't be had are logged. Producers that reserve tokens need no more than this.
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

// Start loads the overrides and then follows them until Stop. Errors are those of Load; then nothing is started. Of ctx only the values are
// kept after that. Starting twice does nothing.
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

// Stop ends the following, and what it has under way: another process goes on with that. It may be called twice, and without Start.
func (f *Follower) Stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stop != nil {
		f.stop()
		f.stop = nil
	}
}

// SetLimits replaces the limits of the limiter, as its SetLimits does, and moves the tasks that wait.
func (f *Follower) SetLimits(ctx context.Context, limits []reservations.Limit) error {
	f.changing.Lock()
	defer f.changing.Unlock()
	before := f.limiter.Limits()
	if err := f.limiter.SetLimits(limits); err != nil {
		return fmt.Errorf("change limits: %w", err)
	}
	f.tell(ctx, before, f.limiter.Limits())
	return nil
}

func (f *Follower) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(f.config.Every - time.Duration(rand.Float64()*float64(f.config.Every)/5)) //nolint:gosec // jitter needs no secrecy
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			f.look(ctx)
		}
	}
}

// look reads the overrides. When it can't, those of the last look stay.
func (f *Follower) look(ctx context.Context) {
	asking, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	list, err := f.source.List(asking)
	switch failed := list == nil && err != nil; {
	case ctx.Err() != nil:
	case failed && !f.unreadable:
		f.unreadable = true
		f.config.Logger.LogAttrs(ctx, slog.LevelWarn, "overrides can't be read, the last known stay in force", slog.Any("error", err))
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
	f.tell(ctx, before, f.limiter.Limits())
}

// sameOverride says whether two overrides are the same. What is not a number is the same as another one: it is told of once.
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
