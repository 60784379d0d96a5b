package reservations

import (
	"context"
	"errors"
	"fmt"
)

// ErrNotCalled is matched by the error of a call under Do, or of a task's handler, that was never made: all that it
// took is given back, whatever the SettleMode. To say why, wrap it: fmt.Errorf("%w: %w", ErrNotCalled, err).
var ErrNotCalled = errors.New("reservations: the call was not made")

// Do waits until all charges have started (see Wait), calls, and settles. The error is that of Wait, or that of call as
// it is. No charges or a nil call is an error, and nothing is taken. How call ends decides what stays charged:
//
//   - used is what it really used, also beside an error: Settle. Nil means that the estimate was right.
//   - ErrNotCalled: all is given back, whatever used says.
//   - a *RetryAfterError, e.g. of RetryAfter: the provider refused the call, which stops the bucket of the last
//     charge. Then used is settled. Do does not call again.
//   - a panic goes on to the caller of Do, and the estimate stays charged.
//
// The settlement and the block outlive ctx, and Do waits for each at most CallTimeout. Where the store does not answer
// within it, the estimate stays charged, and refill heals that: this is no error of Do. An amount in used that can't be
// is one, beside that of call.
func (l *Limiter) Do(ctx context.Context, charges []Charge, call func(context.Context) (Tokens, error)) error {
	if call == nil {
		return errors.New("reservations: Do needs a call, and it is nil")
	}
	if len(charges) == 0 {
		return fmt.Errorf("%w: Do needs a charge: without one the call is unlimited", ErrInvalidCharge)
	}
	g, err := l.Wait(ctx, charges...)
	if err != nil {
		return err
	}
	panicked := true
	defer func() {
		if panicked {
			_ = g.end(ctx, nil, nil)
		}
	}()
	kept, stop := g.Keep(ctx)
	defer stop()
	used, err := call(kept)
	stop()
	panicked = false
	return g.end(ctx, used, err)
}

// end settles as the call ended, and returns its error.
func (g *Grant) end(ctx context.Context, used Tokens, err error) error {
	bounded := func(do func(context.Context) error) error {
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.starts.timeout)
		defer cancel()
		if fault := do(after); !errors.Is(fault, ErrUnavailable) {
			return fault
		}
		return nil
	}
	settle := func(ctx context.Context) error { return g.Settle(ctx, used) }
	if errors.Is(err, ErrNotCalled) {
		settle = g.Cancel
	} else if refusal, refused := errors.AsType[*RetryAfterError](err); refused {
		_ = bounded(func(ctx context.Context) error {
			_, failed := start{g}.Refuse(ctx, refusal)
			return failed
		})
	} else if err == nil {
		_ = bounded(func(ctx context.Context) error {
			_, failed := start{g}.Answered(ctx)
			return failed
		})
	}
	if fault := bounded(settle); fault != nil {
		return errors.Join(err, fault)
	}
	return err // as it is
}
