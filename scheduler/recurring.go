package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

const (
	// recurringRest is the longest time between two looks at the schedules: the clock of Redis may be set.
	recurringRest = time.Minute
	// recurringLeast keeps a process from asking for a tick that is about to come over and over.
	recurringLeast = time.Millisecond
)

// Recurring is a task that is enqueued at each tick of a schedule. Every started Scheduler that has it in its Config
// takes part: each tick is enqueued by one of them, once, on Redis's clock. That the task runs once is asynq's
// promise: at least once.
//
// Where no process was up at a tick, or Redis was away, the last missed tick is enqueued late, and earlier ones are
// not. A recurring task that is new, or whose schedule has changed, begins with the next tick.
type Recurring struct {
	// Name identifies the schedule in the fleet: 1 to 100 letters, digits, '-', '_' and '.'.
	Name string
	// Spec is a cron expression of minute, hour, day of the month, month and weekday, e.g. "0 3 * * *"; a descriptor,
	// e.g. "@daily"; or an interval, e.g. "@every 5m", of at least a second: its ticks are the multiples of it since
	// 1970 UTC.
	Spec string
	// Zone is the time zone of an expression, e.g. "Europe/Berlin". Defaults to UTC. A local time that a change of the
	// clocks leaves out has no tick. One that comes twice ticks the first time, if the expression is not for every hour.
	Zone string
	// StartWithin bounds how late a tick may start: its task ends as expired then, and a missed tick that is older is
	// not enqueued. Zero means any time.
	StartWithin time.Duration
	// Args are the arguments of each task. The ID of the task is "NAME@" and the time of the tick, in UTC.
	Args tasks.Args
	// Options apply to each task, but ID, At and StartBy are not allowed. With Unique, a tick is skipped while the task
	// of an earlier one waits or runs.
	Options tasks.Options
}

var recurringName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)

// Validate reports every fault, each a *reservations.FieldError.
func (r Recurring) Validate() error {
	_, err := r.recurrence()
	return err
}

// recurrence is a Recurring that was checked.
type recurrence struct {
	Recurring

	schedule schedule
	queue    string
	charges  []reservations.Charge
	since    time.Time // when this process looked first, on Redis's clock
}

func (r Recurring) recurrence() (*recurrence, error) {
	var faults []error
	if !recurringName.MatchString(r.Name) {
		faults = append(faults, invalid("name", "%.120q must be 1 to 100 letters, digits, '-', '_' and '.'", r.Name))
	}
	parsed, err := parseSchedule(r.Spec, r.Zone)
	if err != nil {
		faults = append(faults, err)
	}
	if r.StartWithin < 0 {
		faults = append(faults, invalid("start_within", "%v must not be negative", r.StartWithin))
	}
	o := r.Options
	if o.ID != "" || !o.At.IsZero() || !o.StartBy.IsZero() {
		faults = append(faults, invalid("options", "can't have an ID or a time: the tick gives them"))
	}
	if fault := envelope.Validate(o); fault != nil {
		faults, o = append(faults, fault), tasks.Options{}
	}
	packed, err := envelope.Encode(r.Args, o)
	if err != nil {
		faults = append(faults, &reservations.FieldError{Field: "args", Problem: err.Error()})
	}
	checked := &recurrence{Recurring: r, schedule: parsed, queue: packed.Options.Queue, charges: packed.Charges}
	return checked, errors.Join(faults...)
}

// recurrences checks what a config lists. The error joins every fault, each with its path.
func recurrences(all []Recurring) ([]*recurrence, error) {
	var faults []error
	var checked []*recurrence
	names := map[string]bool{}
	for i, r := range all {
		path := fmt.Sprintf("recurring.%d", i)
		if recurringName.MatchString(r.Name) {
			path = "recurring." + r.Name
		}
		if names[r.Name] {
			faults = append(faults, &reservations.FieldError{Field: path, Problem: "there are two of this name"})
		}
		names[r.Name] = true
		one, err := r.recurrence()
		faults = append(faults, below(path, err)...)
		checked = append(checked, one)
	}
	return checked, errors.Join(faults...)
}

// neverServed lists the recurring tasks whose charges the limits can never serve: each of their ticks would be skipped.
func neverServed(all []*recurrence, limiter *reservations.Limiter) error {
	var faults []error
	for _, r := range all {
		for _, c := range r.charges {
			if err := limiter.Validate(c); err != nil {
				faults = append(faults, fmt.Errorf("recurring.%s.args: %w", r.Name, err))
			}
		}
	}
	return errors.Join(faults...)
}

// below puts a path before the fields of joined faults.
func below(path string, err error) (faults []error) {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range many.Unwrap() {
			faults = append(faults, below(path, e)...)
		}
		return faults
	}
	if f, ok := errors.AsType[*reservations.FieldError](err); ok {
		return []error{&reservations.FieldError{Field: path + "." + f.Field, Problem: f.Problem}}
	}
	if err != nil {
		return []error{fmt.Errorf("%s: %w", path, err)}
	}
	return nil
}

// tick is one tick of a recurring task.
type tick struct {
	asynqdb.Tick

	series string
}

// optionsAt are the options of the task of a tick. The tick gives it its ID.
func (r *recurrence) optionsAt(at time.Time) tasks.Options {
	o := r.Options
	o.ID = r.Name + "@" + at.UTC().Format("2006-01-02T15:04:05.999Z07:00")
	if r.StartWithin > 0 {
		o.StartBy = at.Add(r.StartWithin)
	}
	return o
}

// recur enqueues the ticks of all schedules until ctx ends.
func (s *Scheduler) recur(ctx context.Context) {
	if len(s.recurring) == 0 {
		return
	}
	for last := time.Duration(0); ; { // the pause after an error; zero when there was none
		rest, err := s.tickAll(ctx, s.recurring)
		if err != nil && last == 0 && ctx.Err() == nil {
			s.config.Logger.WarnContext(ctx, "recurring tasks can't be enqueued, will try again", slog.Any("error", err))
		}
		if last = dispatcher.PauseAfter(err, last); last > 0 {
			rest = min(rest, last)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(recurringLeast, rest)):
		}
	}
}

// tickAll enqueues the ticks that are due, and says when the next one is.
func (s *Scheduler) tickAll(ctx context.Context, all []*recurrence) (rest time.Duration, err error) {
	rest = recurringRest
	var faults []error
	for _, r := range all {
		next, err := s.tickOne(ctx, r)
		if err != nil {
			faults = append(faults, fmt.Errorf("recurring task %q: %w", r.Name, err))
			continue
		}
		rest = min(rest, next)
	}
	return rest, errors.Join(faults...)
}

// tickOne enqueues the last tick of one schedule, if that was not done before.
func (s *Scheduler) tickOne(ctx context.Context, r *recurrence) (rest time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, dispatcher.CallTimeout)
	defer cancel()
	last, now, err := s.queues.LastTick(ctx, r.queue, r.Name, r.schedule.text)
	if err != nil {
		return 0, err
	}
	if r.since.IsZero() {
		r.since = now
	}
	from := time.UnixMilli(last.MS)
	if last.Schedule != r.schedule.text && r.since.After(from) {
		from = r.since // the tick before a changed schedule was not missed
	}
	if due := r.schedule.last(from, now); !due.IsZero() {
		if err := s.enqueueTick(ctx, r, due, now); err != nil {
			return 0, err
		}
	}
	if next := r.schedule.next(now); !next.IsZero() {
		return next.Sub(now), nil
	}
	return recurringRest, nil
}

// enqueueTick enqueues the task of one tick. A tick that is too late, or whose task can never be enqueued, is skipped.
func (s *Scheduler) enqueueTick(ctx context.Context, r *recurrence, at, now time.Time) error {
	this := asynqdb.Tick{MS: at.UnixMilli(), Schedule: r.schedule.text}
	if r.StartWithin > 0 && !now.Before(at.Add(r.StartWithin)) {
		return s.queues.SkipTick(ctx, r.queue, r.Name, this)
	}
	_, err := s.enqueueOne(ctx, r.Args, &tick{Tick: this, series: r.Name}, r.optionsAt(at))
	switch {
	case err == nil:
		s.config.Logger.DebugContext(ctx, "recurring task enqueued", slog.String("name", r.Name), slog.Time("tick", at))
		return nil
	case exists(err): // another process was first, or with Unique an earlier task is under way
		return nil
	case errors.Is(err, tasks.ErrExpired), errors.Is(err, tasks.ErrInvalidOptions), reservations.IsPermanent(err):
		s.config.Logger.ErrorContext(ctx, "tick of a recurring task skipped",
			slog.String("name", r.Name), slog.Time("tick", at), slog.Any("error", err))
		return s.queues.SkipTick(ctx, r.queue, r.Name, this)
	}
	return err
}
