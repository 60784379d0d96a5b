package dispatcher

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/line/waitlist"
)

// waking is a promoted task that asynq has to deliver, now or again: its last worker had not put it back.
type waking struct {
	task  waitlist.Task
	rank  int // the smaller ones go first
	at    time.Time
	tries int
}

// deliver has the next wake deliver the tasks, each once: a task of a queue that can't be woken is promoted again.
func (d *promoter) deliver(promoted []waitlist.Task, rank map[waitlist.Task]int) {
	if len(d.awake) > 0 {
		again := map[waitlist.Task]bool{}
		for _, t := range promoted {
			again[t] = true
		}
		d.awake = slices.DeleteFunc(d.awake, func(w waking) bool { return again[w.task] })
	}
	for _, t := range promoted {
		d.awake = append(d.awake, waking{task: t, rank: rank[t]})
	}
}

// wake has asynq deliver the promoted tasks that are due, and says when the next one is. Tasks of a queue that can't be
// woken are due again soon: the other queues do not wait for it.
func (d *promoter) wake(ctx context.Context) (next time.Duration) {
	now := time.Now()
	due := map[string][]waking{}
	d.awake = slices.DeleteFunc(d.awake, func(w waking) bool {
		if w.at.After(now) {
			return false
		}
		due[w.task.Queue] = append(due[w.task.Queue], w)
		return true
	})
	for queue, all := range due {
		err := d.wakeQueue(ctx, queue, all)
		if err == nil {
			continue
		}
		for _, w := range all {
			w.at = now.Add(errorPause)
			d.awake = append(d.awake, w)
		}
		if ctx.Err() == nil && d.unwoken.Due(now) {
			d.s.log.WarnContext(ctx, "promoted tasks are not delivered yet",
				slog.String("queue", queue), slog.Int("tasks", len(all)), slog.Any("error", err))
		}
	}
	for _, w := range d.awake {
		if in := max(time.Millisecond, time.Until(w.at)); next == 0 || in < next {
			next = in
		}
	}
	return next
}

// wakeQueue has asynq deliver tasks of one queue, urgent ones first, or calls promoted callers.
func (d *promoter) wakeQueue(ctx context.Context, queue string, all []waking) error {
	slices.SortStableFunc(all, func(a, b waking) int { return cmp.Compare(a.rank, b.rank) })
	tasks, ids, urgent := make([]waitlist.Task, len(all)), make([]string, len(all)), 0
	for i, w := range all {
		tasks[i], ids[i], urgent = w.task, w.task.ID, urgent-w.rank
	}
	if queue == waitlist.QueueCallers {
		return d.s.list.Call(ctx, tasks)
	}
	results, err := d.s.queues.Wake(ctx, queue, ids, urgent)
	for i, r := range results {
		d.woke(ctx, all[i], r)
	}
	return err
}

// woke sees to a task that asynq could not deliver.
func (d *promoter) woke(ctx context.Context, w waking, result asynqdb.Wake) {
	switch result {
	case asynqdb.Woken, asynqdb.Away:
	case asynqdb.Active:
		if w.tries < wakeTries {
			w.at = time.Now().Add(min(wakePause<<w.tries, wakePauseMost))
			w.tries++
			d.awake = append(d.awake, w)
			return
		}
		if err := d.s.list.Park(ctx, []waitlist.Task{w.task}); err != nil {
			d.s.log.DebugContext(ctx, "promoted task of a dead worker still counts",
				slog.String("task_id", w.task.ID), slog.Any("error", err))
		}
	case asynqdb.Unknown:
		d.lost(ctx, w.task)
	}
}

// lost sees to a promoted task that asynq has in none of its sets. A task that was deleted or archived leaves the
// waitlists.
func (d *promoter) lost(ctx context.Context, t waitlist.Task) {
	info, err := d.s.inspector.GetTaskInfo(t.Queue, t.ID)
	switch {
	case err != nil && !asynqdb.Gone(err):
		d.awake = append(d.awake, waking{task: t, at: time.Now().Add(wakePauseMost)})
		return
	case err == nil && info.State == asynq.TaskStateAggregating:
		if err = d.s.inspector.RunTask(t.Queue, t.ID); err == nil || !asynqdb.Gone(err) {
			return
		}
	case err == nil && info.State != asynq.TaskStateArchived && info.State != asynq.TaskStateCompleted:
		d.awake = append(d.awake, waking{task: t, at: time.Now().Add(wakePause)})
		return
	}
	d.s.after(ctx, "ended task still in a waitlist",
		func(ctx context.Context) error { return d.s.leaveEnded(ctx, t, info) }, slog.String("task_id", t.ID))
}

// ring has asynq deliver the tasks whose timers were due. What is reserved for a task that had to start by now is
// released at once. That is so even if no worker is free to end the task.
func (d *promoter) ring(ctx context.Context, rung []waitlist.Rung) {
	ids := map[string][]string{}
	var expired []waitlist.Task
	for _, r := range rung {
		ids[r.Queue] = append(ids[r.Queue], r.ID)
		if r.Waits {
			expired = append(expired, r.Task)
		}
	}
	for queue, of := range ids {
		if _, err := d.s.queues.Wake(ctx, queue, of, 0); err != nil {
			d.s.log.WarnContext(ctx, "tasks are delivered up to two seconds after their time",
				slog.String("queue", queue), slog.Int("tasks", len(of)), slog.Any("error", err))
		}
	}
	if len(expired) == 0 {
		return
	}
	d.s.after(ctx, "expired tasks still in a waitlist", func(ctx context.Context) (err error) {
		for _, t := range slices.Compact(expired) {
			info, _ := d.s.inspector.GetTaskInfo(t.Queue, t.ID) // where it can't be read, the reservation heals by refill
			err = errors.Join(err, d.s.leaveEnded(ctx, t, info))
		}
		return err
	})
}

// takeOver wakes every promoted task once more: the last dispatcher may have died before it did.
func (d *promoter) takeOver(ctx context.Context) error {
	d.behind.Store(true)
	all, err := d.s.list.AllPromoted(ctx)
	d.deliver(all, nil)
	return err
}
