package scheduler

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/headway-go/headway/internal/line/dispatcher"
)

// deliveryDefault is what a delivery takes: asynq's servers look for tasks every 50 ms when Headway configures them.
const deliveryDefault = 75 * time.Millisecond

// Config holds the settings of a Scheduler. The zero value is ready to use.
type Config struct {
	// Delivery is how long before its time a task is promoted: what it takes from there to a worker. At most 170 ms,
	// so that the hold of 250 ms makes an early task exact. Negative means not early. Defaults to 75 ms.
	Delivery time.Duration
	// Recurring are the tasks that are enqueued on a schedule, while the scheduler is started. All processes of a fleet
	// may have them. Defaults to none.
	Recurring []Recurring
	// Logger gets a line when Redis can't be reached and when it can again. Defaults to slog.Default().
	Logger *slog.Logger
	// Tracer makes the spans of enqueued tasks, and of a worker's deliveries. Defaults to the global one of
	// OpenTelemetry, which makes none unless the program sets it.
	Tracer trace.TracerProvider
}

// check returns the recurring tasks. The error joins every fault, each a *reservations.FieldError.
func (c Config) check() ([]*recurrence, error) {
	var faults []error
	if c.Delivery > dispatcher.DeliveryMost {
		faults = append(faults, invalid("delivery", "%v must be at most %v, so that the longest hold makes it exact",
			c.Delivery, dispatcher.DeliveryMost))
	}
	recurring, err := recurrences(c.Recurring)
	return recurring, errors.Join(append(faults, err)...)
}

// invalidConfig says what the faults are about.
func invalidConfig(err error) error { return fmt.Errorf("scheduler: invalid config: %w", err) }

// withDefaults returns a copy in which zero is the default and negative is zero.
func (c Config) withDefaults() Config {
	if c.Delivery == 0 {
		c.Delivery = deliveryDefault
	}
	c.Delivery = max(0, c.Delivery)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}
