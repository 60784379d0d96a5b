package fleet

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/headway-go/headway/internal/cli"
)

// newLogger returns the logger of the flags, and its level, which can change.
func newLogger(w io.Writer, s runSettings) (*slog.Logger, *slog.LevelVar, error) {
	level := &slog.LevelVar{}
	if err := level.UnmarshalText([]byte(s.logLevel)); err != nil {
		return nil, nil, cli.Usage("--log-level: %q must be debug, info, warn or error", s.logLevel)
	}
	options := &slog.HandlerOptions{Level: level}
	switch s.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), level, nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), level, nil
	}
	return nil, nil, cli.Usage("--log-format: %q must be text or json", s.logFormat)
}

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
