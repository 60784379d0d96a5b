package tasks

import (
	"errors"
	"fmt"
	"math"
	"reflect"

	"github.com/headway-go/headway/reservations"
)

// Args is the payload of a task. It is encoded with encoding/json.
type Args interface {
	// TaskType names the type of the task, e.g. "summary" or "mail:send". It must not be empty, and must not depend on the
	// payload: it is also called on a zero value.
	TaskType() string
}

// Charger is implemented by arguments whose tasks take from a limit.
type Charger interface {
	// Charges says what one task takes when it starts, all or nothing; it is taken again for each attempt. Nil means nothing: the
	// task is unlimited. Of several charges, at most MaxCharges and each of another bucket, the narrowest stands first and the provider's
	// last: they are asked in this order, so that a tenant with a small share waits for that before it stands in anybody's way, and
	// a refusal by the provider (RetryAfter) blocks the bucket of the last.
	Charges() []reservations.Charge
}

// Optioner is implemented by arguments whose type has its own defaults.
type Optioner interface {
	// TaskOptions are the options of a task unless whoever enqueues it says otherwise. It may depend on the payload, e.g.
	// to choose an ID that makes enqueuing twice harmless.
	TaskOptions() Options
}

// TypeOf is the task type of T, told without a payload. It is empty where T is an interface.
func TypeOf[T Args]() string {
	args, ok := blank[T]()
	if !ok {
		return ""
	}
	return args.TaskType()
}

// MaxCharges is how many charges a task can have.
const MaxCharges = 8

// ChargesOf is what a task with these arguments takes: nothing where args is no Charger. The error matches
// ErrTooManyCharges, ErrDuplicateCharge, or reservations.ErrInvalidCharge where a charge names no limit or an amount is not a number or negative. Whether the limit exists
// and can serve the charge is for a reservations.Limiter to say.
func ChargesOf(args Args) ([]reservations.Charge, error) {
	charger, ok := args.(Charger)
	if !ok {
		return nil, nil
	}
	charges := charger.Charges()
	if err := CheckCharges(charges); err != nil {
		return nil, err
	}
	return charges, nil
}

// CheckCharges reports why no task can have these charges, whatever the limits: ErrTooManyCharges, ErrDuplicateCharge, or
// reservations.ErrInvalidCharge.
func CheckCharges(charges []reservations.Charge) error {
	if len(charges) > MaxCharges {
		return fmt.Errorf("%w, not %d", ErrTooManyCharges, len(charges))
	}
	for _, c := range charges {
		if c.Given != nil {
			return &reservations.ChargeError{Charge: c, Err: reservations.ErrInvalidCharge, Problem: "a task can't carry a limit"}
		}
		if err := errors.Join(c.ValidateKey(), c.ValidateFlow()); err != nil {
			return err
		}
		for meter, n := range c.Tokens {
			if math.IsNaN(n) || math.IsInf(n, 0) || n < 0 {
				return &reservations.ChargeError{
					Charge: c, Meter: meter, Err: reservations.ErrInvalidCharge,
					Problem: "tokens must be a number that is not negative",
				}
			}
		}
	}
	return reservations.Distinct(charges)
}

// blank makes arguments to decode into: a zero value, or where T is a pointer one to a zero value. It fails for an interface.
func blank[T Args]() (T, bool) {
	var args T
	switch t := reflect.TypeFor[T](); t.Kind() { //nolint:exhaustive // every other kind is usable as it is
	case reflect.Interface:
		return args, false
	case reflect.Pointer:
		made, ok := reflect.TypeAssert[T](reflect.New(t.Elem()))
		return made, ok
	default:
		return args, true
	}
}

// isNil says whether args holds nothing that could be encoded.
func isNil(args Args) bool {
	if args == nil {
		return true
	}
	v := reflect.ValueOf(args)
	return v.Kind() == reflect.Pointer && v.IsNil()
}
