package simulate

import (
	"fmt"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/reservations"
)

const (
	// UntilDefault is when a simulation ends in which calls still wait.
	UntilDefault = 10 * 365 * 24 * time.Hour
	// MaxRefusalsDefault is the max_refusals of a worker.
	MaxRefusalsDefault = 20
	// RefuseMost is the largest share of refused calls: with more of them hardly a call would end.
	RefuseMost = 0.9
)

// Config says how calls are made. The zero value is ready to use.
type Config struct {
	// Start is the moment of the start, on which fixed windows depend. Defaults to StartDefault.
	Start time.Time
	// Seed makes what happens by chance: the choice of shards and the refused calls.
	Seed uint64
	// Slots is how many calls the workers run at once in all. Zero means as many as start.
	Slots int
	// Refuse is the share of the calls that their provider refuses, from 0 to RefuseMost. RetryAfter is the time that
	// it names: it blocks the last bucket of the call.
	Refuse     float64
	RetryAfter time.Duration
	// MaxRefusals is how often in a row a call may be refused until it counts as failed. Defaults to MaxRefusalsDefault.
	MaxRefusals int
	// Large allows charges above the capacity of a meter. They wait for a full bucket.
	Large bool
	// Observe is called for each call that starts, with its index. Nil means that nothing observes.
	Observe func(call int, at time.Duration)
	// Until is when the simulation ends although calls wait. Defaults to UntilDefault, which is also the largest.
	Until time.Duration
}

// StartDefault is a Monday at midnight: all windows of common periods begin then.
func StartDefault() time.Time { return time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC) }

// complete returns the config with its defaults, or the first fault.
func (c Config) complete() (Config, error) {
	if c.Start.IsZero() {
		c.Start = StartDefault()
	}
	if c.MaxRefusals == 0 {
		c.MaxRefusals = MaxRefusalsDefault
	}
	if c.Until == 0 {
		c.Until = UntilDefault
	}
	switch {
	case c.Slots < 0:
		return c, fmt.Errorf("slots: %d must be zero or more", c.Slots)
	case !(c.Refuse >= 0 && c.Refuse <= RefuseMost):
		return c, fmt.Errorf("refuse: %v must be from 0 to %v", c.Refuse, RefuseMost)
	case c.Refuse > 0 && c.RetryAfter <= 0:
		return c, fmt.Errorf("retry-after: %v must be above zero where calls are refused", c.RetryAfter)
	case c.MaxRefusals < 0:
		return c, fmt.Errorf("max-refusals: %d must be zero or more", c.MaxRefusals)
	case c.Until < 0 || c.Until > UntilDefault:
		return c, fmt.Errorf("until: %v must be from 0 to %v", c.Until, UntilDefault)
	}
	return c, nil
}

// callFault is the fault of a call.
func callFault(c Call, n int, field, format string, args ...any) error {
	return fmt.Errorf("%s: %s: %s", c.name(n), field, fmt.Sprintf(format, args...))
}

// check says why a call can't be simulated. Calls that share charges are checked once.
func (f *fleet) check(c Call, n int) error {
	switch {
	case c.At < 0:
		return callFault(c, n, "at", "%v must not be negative", c.At)
	case c.Latency < 0 || c.Latency > UntilDefault:
		return callFault(c, n, "latency", "%v must be from 0 to %v", c.Latency, UntilDefault)
	}
	for meter, used := range c.Used {
		if !(used >= 0 && used <= bucket.LargestAmount) {
			return callFault(c, n, "used", "%v %s must be from 0 to %g", used, meter, bucket.LargestAmount)
		}
	}
	if f.checked == &c.Charges[0] {
		return nil
	}
	f.checked = &c.Charges[0]
	if err := reservations.ValidateCharges(c.Charges); err != nil {
		return fmt.Errorf("%s: %w", c.name(n), err)
	}
	for _, charge := range c.Charges {
		if err := f.limiter.Validate(charge); err != nil {
			return fmt.Errorf("%s: %w", c.name(n), err)
		}
		limit, _ := inside.Of(f.limiter).Limits().For(charge.Limit, "") // valid ones have a limit
		for _, m := range limit.Meters {
			if tokens := charge.Tokens[m.Name]; !f.config.Large && m.Cap() > 0 && tokens > m.Cap() {
				return callFault(c, n, m.Name, "%v is above the capacity of limit %q, %v: the call would wait for a full "+
					"bucket, and all others until that is paid back", tokens, limit.Name, m.Cap())
			}
		}
	}
	return nil
}
