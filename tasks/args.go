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

// Charger is implemented by arguments whose tasks have charges.
type Charger interface {
	// Charges returns the charges of one task. The task takes all of them when it starts, and again for each attempt.
	// Nil means that the task is unlimited. There are at most MaxCharges charges, each for another bucket. Put the
	// charge of the narrowest limit first and the provider's last, because the task asks the buckets in this order.
	// So a tenant with a small share waits for its own limit before it takes tokens from others. A refusal by the
	// provider (RetryAfter) blocks the bucket of the last charge.
	Charges() []reservations.Charge
}

// Optioner is implemented by arguments whose type has default options of its own.
type Optioner interface {
	// TaskOptions returns the default options of a task. Options of the enqueue call override them. They may depend
	// on the payload, e.g. for an ID that makes enqueuing twice harmless.
	TaskOptions() Options
}

// TypeOf returns the task type of T, which needs no payload. It is empty if T is an interface.
func TypeOf[T Args]() string {
	args, ok := blank[T]()
	if !ok {
		return ""
	}
	return args.TaskType()
}

// MaxCharges is the largest number of charges of a task.
const MaxCharges = 8

// ChargesOf returns the charges of a task with these arguments: none if args is no Charger. The error matches
// ErrTooManyCharges or ErrDuplicateCharge. It matches reservations.ErrInvalidCharge if a charge names no limit, or an
// amount is negative or not a number. A reservations.Limiter checks whether the limit exists and can serve the
// charge.
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

// CheckCharges returns an error if no task can have these charges, whatever the limits: ErrTooManyCharges,
// ErrDuplicateCharge, or reservations.ErrInvalidCharge.
func CheckCharges(charges []reservations.Charge) error {
	if len(charges) > MaxCharges {
		return fmt.Errorf("%w, not %d", ErrTooManyCharges, len(charges))
	}
	for _, c := range charges {
		if c.Given != nil {
			return &reservations.ChargeError{
				Charge: c, Err: reservations.ErrInvalidCharge, Problem: "a task can't carry a limit",
			}
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

// blank returns arguments to decode into: a zero value, or a pointer to one if T is a pointer. Ok is false for an
// interface.
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

// isNil returns whether args is nil, or a nil pointer.
func isNil(args Args) bool {
	if args == nil {
		return true
	}
	v := reflect.ValueOf(args)
	return v.Kind() == reflect.Pointer && v.IsNil()
}
