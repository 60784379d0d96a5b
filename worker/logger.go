package worker

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/hibiken/asynq"
)

// asynqLogger passes what asynq has to say on to slog. asynq v0.26.0 never calls Fatal.
type asynqLogger struct{ log *slog.Logger }

var _ asynq.Logger = asynqLogger{}

func (l asynqLogger) Debug(args ...any) { l.write(slog.LevelDebug, args) }
func (l asynqLogger) Info(args ...any)  { l.write(slog.LevelInfo, args) }
func (l asynqLogger) Warn(args ...any)  { l.write(slog.LevelWarn, args) }
func (l asynqLogger) Error(args ...any) { l.write(slog.LevelError, args) }
func (l asynqLogger) Fatal(args ...any) { l.write(slog.LevelError, args) }

func (l asynqLogger) write(level slog.Level, args []any) {
	l.log.LogAttrs(context.Background(), level, "asynq", slog.String("says", fmt.Sprint(args...)))
}

// asynqLevel is the lowest level that the logger shows, so that asynq formats no lines below it.
func asynqLevel(log *slog.Logger) asynq.LogLevel {
	levels := []struct {
		slog  slog.Level
		asynq asynq.LogLevel
	}{
		{slog.LevelDebug, asynq.DebugLevel},
		{slog.LevelInfo, asynq.InfoLevel},
		{slog.LevelWarn, asynq.WarnLevel},
	}
	for _, l := range levels {
		if log.Enabled(context.Background(), l.slog) {
			return l.asynq
		}
	}
	return asynq.ErrorLevel
}
