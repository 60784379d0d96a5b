package scheduler

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/tasks"
)

// A task with At or StartBy is in asynq's scheduled set, by whole seconds, and has timers in the waitlist's Redis, by
// microseconds. The dispatcher wakes the task when a timer is due. A lost timer costs at most two seconds: then asynq
// delivers the task.

// wholeSecondFrom rounds up: asynq rounds down, and would deliver too early.
func wholeSecondFrom(t time.Time) time.Time {
	if whole := t.Truncate(time.Second); whole.Before(t) {
		return whole.Add(time.Second)
	}
	return t
}

// timeNet is when asynq delivers a task that may start at t; zero for now.
func timeNet(t, now time.Time) time.Time {
	if !t.After(now) {
		return time.Time{}
	}
	return wholeSecondFrom(t)
}

// checkStartBy returns an error if the task had to start in the past.
func checkStartBy(o tasks.Options, now time.Time) error {
	if o.StartBy.IsZero() || o.StartBy.After(now) {
		return nil
	}
	return fmt.Errorf("%w: %w", tasks.ErrInvalidOptions,
		invalid("start_by", "%s must be in the future: it is %s", envelope.ClockText(o.StartBy), envelope.ClockText(now)))
}

// setTimers sets the timers of tasks that were enqueued.
func (s *Scheduler) setTimers(ctx context.Context, parcels []*dispatcher.Parcel) {
	var timers []waitlist.Timer
	now := time.Now()
	for _, p := range parcels {
		if p.Info == nil {
			continue
		}
		t := waitlist.Timer{Task: waitlist.Task{Queue: p.Info.Queue, ID: p.Info.ID}}
		if at := p.Options.At; at.After(now) {
			t.At = max(at.Sub(now)-s.config.Delivery, time.Microsecond)
			p.Info.NextProcessAt = at
		}
		if by := p.Options.StartBy; !by.IsZero() {
			t.StartBy = max(by.Sub(now), time.Microsecond)
		}
		if t.At != 0 || t.StartBy != 0 {
			timers = append(timers, t)
		}
	}
	if len(timers) == 0 {
		return
	}
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), dispatcher.AfterTimeout)
	defer cancel()
	if err := s.list.SetTimers(after, timers); err != nil {
		s.config.Logger.WarnContext(ctx, "times of tasks could not be stored: asynq delivers them up to two seconds later",
			slog.Int("tasks", len(timers)), slog.Any("error", err))
	}
}

// tooLate refuses a placed task with StartBy that is expected to wait for longer. A task that exists already may be in
// time.
func (s *Scheduler) tooLate(p *dispatcher.Parcel, now time.Time) error {
	by := p.Options.StartBy
	if by.IsZero() || p.Place.Limit == "" || !now.Add(p.Wait).After(by) {
		return nil
	}
	if p.Options.ID != "" {
		if _, err := s.inspector.GetTaskInfo(p.Options.Queue, p.Options.ID); err == nil {
			return fmt.Errorf("enqueue task %q: %w", p.Task.Type(), asynq.ErrTaskIDConflict)
		} else if !asynqdb.Gone(err) {
			return fmt.Errorf("look for task %s: %w", p.Options.ID, err)
		}
	}
	late := &TooLateError{Bucket: p.Place.Bucket().String(), Expected: now.Add(p.Wait), StartBy: by}
	return fmt.Errorf("task %q: %w", p.Task.Type(), late)
}
