package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // zones also where the machine has none

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/llm"
	"github.com/headway-go/headway/tasks/web"
)

type recurringFile struct {
	Every       time.Duration `mapstructure:"every"`
	Cron        string        `mapstructure:"cron"`
	Zone        string        `mapstructure:"zone"`
	StartWithin time.Duration `mapstructure:"start_within"`
	Queue       string        `mapstructure:"queue"`
	Task        taskFile      `mapstructure:"task"`
}

type taskFile struct {
	Type    string         `mapstructure:"type"`
	Payload map[string]any `mapstructure:"payload"`
}

// spec is the schedule in the words of scheduler.Recurring.
func (r recurringFile) spec() string {
	if r.Every != 0 {
		return "@every " + r.Every.String()
	}
	return r.Cron
}

// recurring is one recurring task. The error joins every fault, each a *reservations.FieldError or below the task.
func (r recurringFile) recurring(name string, limits []reservations.Limit) (scheduler.Recurring, error) {
	made := scheduler.Recurring{Name: name, Spec: r.spec(), Zone: r.Zone, StartWithin: r.StartWithin}
	if r.Queue != "" {
		made.Options = append(made.Options, scheduler.Queue(r.Queue))
	}
	var faults []error
	if (r.Every == 0) == (strings.TrimSpace(r.Cron) == "") {
		faults = append(faults, &reservations.FieldError{Field: "cron", Problem: "give either cron or every"})
		made.Spec = "@daily"
	}
	args, err := r.Task.args(limits)
	if made.Args = args; err != nil {
		faults = append(faults, &reservations.FieldError{Field: "task", Problem: err.Error()})
		made.Args = web.Request{}
	}
	walk(made.Validate(), func(e error) {
		if f := (*reservations.FieldError)(nil); errors.As(e, &f) && f.Field == "spec" {
			field := "cron"
			if r.Every != 0 {
				field = "every"
			}
			e = &reservations.FieldError{Field: field, Problem: f.Problem}
		}
		if e != nil {
			faults = append(faults, e)
		}
	})
	return made, errors.Join(faults...)
}

// args are the arguments of the task. A call that names a limit takes what its request allows itself of all
// meters of the limit, as `enqueue one` has it.
func (t taskFile) args(limits []reservations.Limit) (tasks.Args, error) {
	payload, err := json.Marshal(t.Payload)
	if err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	var args interface {
		tasks.Args
		tasks.Charger
	}
	switch t.Type {
	case llm.TaskType:
		var c struct {
			llm.Call

			Limit string `json:"limit"` // instead of charges
			Key   string `json:"key"`
		}
		if err = strictly(payload, &c); err == nil && c.Limit != "" {
			var last reservations.Charge
			last, err = charge(limits, c.Endpoint, c.Limit, c.Key, c.Request)
			c.Taken = append(c.Taken, last)
		}
		args = c.Call
	case web.TaskType:
		var q web.Request
		if err = strictly(payload, &q); err == nil {
			err = q.Validate()
		}
		args = q
	default:
		return nil, fmt.Errorf("type %.40q must be %s or %s", t.Type, llm.TaskType, web.TaskType)
	}
	if err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	checker, err := reservations.New(nil, limits, reservations.Config{})
	if err != nil {
		return args, nil //nolint:nilerr // the faults of the limits are listed where they are
	}
	for _, c := range args.Charges() {
		if err := checker.Validate(c); err != nil {
			return nil, fmt.Errorf("payload: %w", err)
		}
	}
	return args, nil
}

// strictly decodes a payload, in which no name is misspelt.
func strictly(payload []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(payload))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// charge is what a request takes from a limit.
func charge(
	limits []reservations.Limit, endpoint llm.Endpoint, name, key string, request json.RawMessage,
) (reservations.Charge, error) {
	var meters []string
	for _, l := range limits {
		if l.Name == name {
			for _, m := range l.Meters {
				meters = append(meters, m.Name)
			}
		}
	}
	if meters == nil {
		return reservations.Charge{}, fmt.Errorf("there is no limit %q", name)
	}
	return endpoint.Charge(name, key, request, meters...)
}
