package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // zones, even if the machine has no database of zones

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

// spec returns the schedule in the syntax of scheduler.Recurring.
func (r recurringFile) spec() string {
	if r.Every != 0 {
		return "@every " + r.Every.String()
	}
	return r.Cron
}

// recurring returns one recurring task. The error joins all faults, each a *reservations.FieldError. Of c it needs the
// limits, the providers and HTTP.
func (r recurringFile) recurring(name string, c Config) (scheduler.Recurring, error) {
	made := scheduler.Recurring{
		Name: name, Spec: r.spec(), Zone: r.Zone, StartWithin: r.StartWithin, Options: tasks.Options{Queue: r.Queue},
	}
	var faults []error
	if (r.Every == 0) == (strings.TrimSpace(r.Cron) == "") {
		faults = append(faults, &reservations.FieldError{Field: "cron", Problem: "give either cron or every"})
		made.Spec = "@daily"
	}
	args, err := r.Task.args(c.Limits, c.HTTP)
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
		faults = append(faults, e)
	})
	if call, ok := made.Args.(llm.Call); ok && len(faults) == 0 {
		var last reservations.Charge
		if n := len(call.Taken); n > 0 {
			last = call.Taken[n-1]
		}
		if err := c.Providers.Check(last.Limit); err != nil {
			faults = append(faults, &reservations.FieldError{Field: "task", Problem: err.Error()})
		}
	}
	return made, errors.Join(faults...)
}

// args returns the arguments of the task. A call may name a limit without a charge. Its charge is then the largest
// usage that the request allows, on all meters of the limit, as in `headway enqueue`.
func (t taskFile) args(limits []reservations.Limit, http HTTP) (tasks.Args, error) {
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
		if err == nil {
			_, err = c.Endpoint.Charge("unlimited", "", c.Request) // a check of the endpoint and the body
		}
		args = c.Call
	case web.TaskType:
		var q web.Request
		if err = strictly(payload, &q); err == nil {
			err = http.Client(func(string) string { return "" }).Check(q)
		}
		args = q
	default:
		return nil, fmt.Errorf("type %.40q must be %s or %s", t.Type, llm.TaskType, web.TaskType)
	}
	if err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	checker, err := reservations.New(reservations.NoStore(), limits, reservations.Config{})
	if err != nil {
		return args, nil //nolint:nilerr // validate lists the faults of the limits
	}
	for _, c := range args.Charges() {
		if err := checker.Validate(c); err != nil {
			return nil, fmt.Errorf("payload: %w", err)
		}
	}
	return args, nil
}

// strictly decodes a payload, and refuses unknown names.
func strictly(payload []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(payload))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// charge returns the charge of a request to a limit.
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
