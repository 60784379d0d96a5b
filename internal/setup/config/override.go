package config

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/reservations"
)

// ParseOverride reads into an override what a person sets for its meter: a rate, or of calls in flight their number.
// Its Limit, Meter and Capacity are set before. CheckOverride says whether the limit may have that rate.
func ParseOverride(o *reservations.Override, text string) (err error) {
	if o.Meter != reservations.MeterInFlight {
		if o.Rate, o.Period, err = ParseRate(text); err != nil {
			return fmt.Errorf("rate %w", err)
		}
		return nil
	}
	calls, err := strconv.Atoi(text)
	switch {
	case o.Capacity != 0:
		return errors.New("--capacity: calls in flight have none; the number of calls is all that can be set")
	case err != nil || calls < 1 || calls > bucket.InFlightMost:
		return fmt.Errorf("%q must be a whole number of calls, from 1 to %d", text, bucket.InFlightMost)
	}
	o.Capacity = float64(calls)
	return nil
}

// CheckOverride returns an error for an override that its limit, one of limits, can't follow.
func CheckOverride(limits []reservations.Limit, set reservations.Override) error {
	checker, err := reservations.New(reservations.NoStore(), limits, reservations.Config{})
	if err != nil {
		return err
	}
	err = inside.Of(checker).SetOverrides([]reservations.Override{set})
	if fault := (*reservations.ChargeError)(nil); errors.As(err, &fault) {
		return errors.Unwrap(fault.Err) // without how to delete what is not set
	}
	return err
}
