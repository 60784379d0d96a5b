// Package pause waits between the tries of a call.
package pause

import (
	"context"
	"time"
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
