package scheduler

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/headway-go/headway/reservations"
)

const (
	// WakeEarlyDefault is what a delivery takes: asynq's servers look for tasks every 50 ms when Headway configures them.
	WakeEarlyDefault = 75 * time.Millisecond
	// JitterReservedDefault is the jitter of a task that was given a time of its own: small, for the bucket spaced them already.
	JitterReservedDefault = 5 * time.Millisecond
	// JitterRefusedDefault is the jitter of a task that comes back to ask for a time: wide, for many are told the same moment.
	JitterRefusedDefault = 100 * time.Millisecond
)

// Config is what a Scheduler may be told. The zero value is fine.
type Config struct {
	// WakeEarly is how long before its time a task is sent on its way. Those that are due up to 50 ms later come along, so that
	// one script wakes several. At most reservations.Hold less these 50 ms, which makes an early task exact. Negative means not early. Defaults to 75 ms.
	WakeEarly time.Duration
	// JitterReserved is the most that is added to the time of a task that is reserved or late. Negative means none.
	// Defaults to 5 ms.
	JitterReserved time.Duration
	// JitterRefused is the most that is added to the time of a task with a ticket. Negative means none. Defaults to 100 ms.
	JitterRefused time.Duration
	// Logger is told when Redis can't be reached and when it can again. Defaults to slog.Default().
	Logger *slog.Logger
}

// Validate reports every fault, each naming its field; the error matches ErrInvalidConfig.
func (c Config) Validate() error {
	var faults []error
	fault := func(field, format string, args ...any) {
		faults = append(faults, &reservations.FieldError{Field: field, Problem: fmt.Sprintf(format, args...)})
	}
	if most := reservations.Hold - wakeAlong; c.WakeEarly > most {
		fault("wake_early", "%v must be at most %v, so that the longest a started task waits makes it exact", c.WakeEarly, most)
	}
	for field, d := range map[string]time.Duration{"jitter_reserved": c.JitterReserved, "jitter_refused": c.JitterRefused} {
		if d > time.Minute {
			fault(field, "%v must be at most %v", d, time.Minute)
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrInvalidConfig, errors.Join(faults...))
}

// withDefaults returns a copy in which zero is the default and negative is zero.
func (c Config) withDefaults() Config {
	c.WakeEarly = durationOr(c.WakeEarly, WakeEarlyDefault)
	c.JitterReserved = durationOr(c.JitterReserved, JitterReservedDefault)
	c.JitterRefused = durationOr(c.JitterRefused, JitterRefusedDefault)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func durationOr(d, whenZero time.Duration) time.Duration {
	if d == 0 {
		return whenZero
	}
	return max(0, d)
}
