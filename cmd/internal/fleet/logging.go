package fleet

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

// switchLevel switches the level between debug and what it is now, but at least info, for each SIGUSR1, until stop is
// called.
func switchLevel(ctx context.Context, level *slog.LevelVar, log *slog.Logger) (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	done, stopped := make(chan struct{}), make(chan struct{})
	usual := max(level.Level(), slog.LevelInfo)
	go func() {
		defer close(stopped)
		for {
			select {
			case <-done:
				return
			case <-signals:
				next := slog.LevelDebug
				if level.Level() == next {
					next = usual
				}
				level.Set(next)
				log.LogAttrs(ctx, max(next, slog.LevelInfo), "log level is set", slog.String("to", next.String()))
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
		<-stopped
	}
}
