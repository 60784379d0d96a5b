// Package pause waits.
package pause

import (
	"context"
	"fmt"
	"time"
)

// For returns after d, or earlier with the error of ctx.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("pause: %w", context.Cause(ctx))
	}
}
