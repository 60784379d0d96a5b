// Package settings has the settings of a worker that a program and headway.yaml both have: their defaults and bounds.
package settings

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

const (
	// Concurrency is how many tasks a worker runs at once where its config names no number. Waiting tasks do not count.
	Concurrency = 50
	// ShutdownTimeout is how long running handlers may go on when a worker stops, where its config names no time.
	ShutdownTimeout = 30 * time.Second
	// FollowEvery is how often a worker looks for overrides, where its config names no time.
	FollowEvery = 2 * time.Second

	// concurrencyMost bounds Settings.Concurrency.
	concurrencyMost = 100_000
	// weightMost bounds the weights of Settings.Queues: asynq makes a list with one name for each unit of weight, each
	// time it takes a task.
	weightMost = 1000
)

// Settings are the fields of worker.Config with the same names.
type Settings struct {
	Concurrency     int
	Queues          map[string]int
	ShutdownTimeout time.Duration
	MaxRefusals     int
	Unserved        time.Duration
}

// Faults are all faults of the settings. Zero is a default, and no fault.
func (s Settings) Faults() Faults {
	var f Faults
	if s.Concurrency < 0 || s.Concurrency > concurrencyMost {
		f.Add("concurrency", "%d must be from 1 to %d", s.Concurrency, concurrencyMost)
	}
	for _, queue := range slices.Sorted(maps.Keys(s.Queues)) {
		if strings.TrimSpace(queue) == "" {
			f.Add("queues", "queue name %q must not be blank", queue)
		} else if err := envelope.Validate(tasks.Options{Queue: queue}); err != nil {
			f.Add("queues", "%v", err)
		}
		if weight := s.Queues[queue]; weight <= 0 || weight > weightMost {
			f.Add("queues."+queue, "weight %d must be from 1 to %d", weight, weightMost)
		}
	}
	NotNegative(&f, "shutdown_timeout", s.ShutdownTimeout)
	NotNegative(&f, "max_refusals", s.MaxRefusals)
	NotNegative(&f, "unserved", s.Unserved)
	return f
}

// Faults gathers what is wrong with a config: each is a *reservations.FieldError.
type Faults []error

// Add adds the fault of a field.
func (f *Faults) Add(field, format string, args ...any) {
	*f = append(*f, &reservations.FieldError{Field: field, Problem: fmt.Sprintf(format, args...)})
}

// NotNegative adds a fault if a setting is negative.
func NotNegative[N int | time.Duration](f *Faults, field string, n N) {
	if n < 0 {
		f.Add(field, "%v must not be negative", n)
	}
}
