package reservations

import (
	"context"
	"time"

	"github.com/headway-go/headway/internal/bucket"
)

// ViewOf is the View of a state of a bucket.
var ViewOf = view

// ValidateIn says why a limit can never serve the charge.
func (c Charge) ValidateIn(l Limit) error { return c.validate(l) }

// Rules is the meter as a bucket has it.
func (m Meter) Rules() bucket.Meter { return m.rules() }

// Shares is what a Grant settles in each bucket.
func (l *Limiter) Shares(ctx context.Context, charges []Charge, used Tokens) map[BucketName]Tokens {
	return l.starts.shares(ctx, charges, used)
}

// The bounds of settings.
const (
	CallTimeoutDefault = callTimeoutDefault
	ResolvedFor        = resolvedFor
	MaxPriorities      = maxPriorities
	MaxWeight          = maxWeight
	MinWeight          = minWeight
)

// What follows is what the tests do with single buckets, as package worker and the dispatcher do.

func (l *Limiter) Ask(ctx context.Context, c Charge) (Outcome, error) { return l.starts.Ask(ctx, c) }

func (l *Limiter) Check(ctx context.Context, c Charge) (Outcome, error) {
	return l.starts.Check(ctx, c)
}
func (l *Limiter) Choose(c Charge) Charge { return l.starts.Choose(c) }
func (l *Limiter) HasStore() bool         { return l.starts.HasStore() }
func (l *Limiter) Halt(cause error)       { l.starts.Halt(cause) }

func (l *Limiter) Permitted(ctx context.Context, charges []Charge) []Charge {
	return l.starts.Permitted(ctx, charges)
}

func (l *Limiter) Reserve(ctx context.Context, charges ...Charge) ([]Outcome, error) {
	return l.starts.Reserve(ctx, charges...)
}

func (l *Limiter) Release(ctx context.Context, c Charge) (Outcome, error) {
	return l.starts.Release(ctx, c)
}

func (l *Limiter) Refresh(ctx context.Context, c Charge) ([]Outcome, error) {
	return l.starts.Refresh(ctx, c)
}

func (l *Limiter) Unblock(ctx context.Context, limit, key string) ([]Outcome, error) {
	return l.starts.Unblock(ctx, limit, key)
}

func (l *Limiter) Block(ctx context.Context, c Charge, d time.Duration) ([]Outcome, error) {
	return l.starts.Block(ctx, c, d)
}

func (l *Limiter) Settle(ctx context.Context, c Charge, used Tokens, id string) (Outcome, error) {
	return l.starts.Settle(ctx, c, used, id)
}

func (l *Limiter) Cancel(ctx context.Context, c Charge, id string) (Outcome, error) {
	return l.starts.Cancel(ctx, Outcome{Charge: c}, id)
}

func (l *Limiter) LimitFor(ctx context.Context, c Charge) (Limit, error) {
	return l.starts.LimitFor(ctx, c)
}

func (l *Limiter) Identity(ctx context.Context) (Identity, error) { return l.starts.Identity(ctx) }

// Start starts charges as package worker does, and reports to no caller.
func (l *Limiter) Start(id string, charges ...Charge) start {
	return l.starts.Start(charges, id, direct{l.starts})
}

func (l *Limiter) Keep(
	ctx context.Context, answered func(o Outcome), charges ...Charge,
) (kept context.Context, stop func()) {
	return l.starts.keeper.keepAll(ctx, answered, charges...)
}
