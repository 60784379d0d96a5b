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
