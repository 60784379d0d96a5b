package cli

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A signal that comes twice within 100 ms is one: only later ones end the process.
func TestEchoOfASignal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, signal := context.WithCancel(t.Context())
		var ends atomic.Bool
		afterEcho(ctx, func() { ends.Store(true) })
		signal()
		<-time.After(signalEcho - time.Nanosecond)
		synctest.Wait()
		if ends.Load() {
			t.Error("the next signal ends the process too early")
		}
		<-time.After(time.Nanosecond)
		synctest.Wait()
		if !ends.Load() {
			t.Error("the next signal does not end the process")
		}
	})
}
