package worker

import (
	"context"
	"log/slog"
	"runtime/debug"
	"strings"

	"github.com/headway-go/headway/reservations"
)

// journal reports what happens to deliveries: to the log, and to the hooks of Config.Events.
type journal struct {
	log    *slog.Logger
	events []func(Event)
}

// namesOf are the limits and the buckets of charges, as logs show them.
func namesOf(charges []reservations.Charge) (limits, buckets string) {
	var l, b []string
	for _, c := range charges {
		l, b = append(l, c.Limit), append(b, c.Bucket().String())
	}
	return strings.Join(l, ","), strings.Join(b, ",")
}

// logTask logs an event of a delivery, with the attributes that identify the task.
func (j journal) logTask(ctx context.Context, d *delivery, level slog.Level, message string, attrs ...slog.Attr) {
	if !j.log.Enabled(ctx, level) {
		return
	}
	if len(d.charges) > 0 {
		limits, buckets := namesOf(d.taken())
		attrs = append([]slog.Attr{slog.String("limit", limits), slog.String("bucket", buckets)}, attrs...)
	}
	j.write(ctx, d, level, message, attrs)
}

// logCharge is logTask for one charge of the task; zero if it has none.
func (j journal) logCharge(
	ctx context.Context, d *delivery, c reservations.Charge, level slog.Level, message string, attrs ...slog.Attr,
) {
	if !j.log.Enabled(ctx, level) {
		return
	}
	if c.Limit != "" {
		attrs = append([]slog.Attr{slog.String("limit", c.Limit), slog.String("bucket", c.Bucket().String())}, attrs...)
	}
	j.write(ctx, d, level, message, attrs)
}

func (j journal) write(ctx context.Context, d *delivery, level slog.Level, message string, attrs []slog.Attr) {
	task := []slog.Attr{
		slog.String("task_id", d.id), slog.String("type", d.task.Type()), slog.String("queue", d.queue),
		slog.Int("attempt", d.retried+1),
	}
	j.log.LogAttrs(ctx, level, message, append(task, attrs...)...)
}

// emit calls the hooks. A panic in one is logged and goes no further: it is not the task's.
func (j journal) emit(e Event) {
	for _, hook := range j.events {
		func() {
			defer func() {
				if value := recover(); value != nil {
					j.log.Error("event hook panicked", slog.String("event", string(e.Kind)),
						slog.Any("panic", value), slog.String("stack", string(debug.Stack())))
				}
			}()
			hook(e)
		}()
	}
}
