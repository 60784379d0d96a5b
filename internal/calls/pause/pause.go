// Package pause waits between the tries of a call.
package pause

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	// brieflyMost bounds the tries of Briefly.
	brieflyMost = 8
	// The longest random pause of Briefly doubles from brieflyFirst to brieflyLast.
	brieflyFirst = 20 * time.Millisecond
	brieflyLast  = 500 * time.Millisecond
)

// For waits for d, or returns why ctx ended before.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Until calls try until it returns nil, with pauses that double from least to most. If ctx ends before, Until returns
// the last error.
func Until(ctx context.Context, least, most time.Duration, try func() error) error {
	for d := least; ; d = min(2*d, most) {
		if err := try(); err == nil || For(ctx, d) != nil {
			return err
		}
	}
}

// Briefly calls try until its error is not transient, at most 8 times, in less than two seconds beside the calls. The
// pauses are random, so that callers that met each other do not meet again. Briefly returns the last error.
func Briefly(ctx context.Context, transient func(error) bool, try func() error) (err error) {
	longest := brieflyFirst
	for n := 1; ; n++ {
		if err = try(); err == nil || !transient(err) || n == brieflyMost {
			return err
		}
		if For(ctx, rand.N(longest)) != nil { //nolint:gosec // jitter needs no secrecy
			return err
		}
		longest = min(2*longest, brieflyLast)
	}
}
