package envelope

import (
	"fmt"
	"reflect"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// TypeOf returns the task type of T, which needs no payload. It is empty if T is an interface. The error is that of
// CheckType.
func TypeOf[T tasks.Args]() (string, error) {
	args, ok := blank[T]()
	if !ok {
		return "", nil
	}
	return args.TaskType(), CheckType(args)
}

// ChargesOf returns the charges of a task with these arguments: none if args is no Charger. The error matches
// ErrTooManyCharges. It matches reservations.ErrInvalidCharge if two charges are for one bucket, a charge names no
// limit, or an amount is negative or not a number. A reservations.Limiter checks whether the limit exists and can serve
// the charge.
func ChargesOf(args tasks.Args) ([]reservations.Charge, error) {
	if err := CheckType(args); err != nil {
		return nil, err
	}
	charger, ok := args.(tasks.Charger)
	if !ok {
		return nil, nil
	}
	charges := charger.Charges()
	if err := CheckCharges(charges); err != nil {
		return nil, err
	}
	return charges, nil
}

// CheckCharges returns an error if no task can have these charges, whatever the limits: ErrTooManyCharges
// or reservations.ErrInvalidCharge.
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
	}
	return reservations.ValidateCharges(charges)
}

// blank returns arguments to decode into: a zero value, or a pointer to one if T is a pointer. Ok is false for an
// interface.
func blank[T tasks.Args]() (T, bool) {
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
func isNil(args tasks.Args) bool {
	if args == nil {
		return true
	}
	v := reflect.ValueOf(args)
	return v.Kind() == reflect.Pointer && v.IsNil()
}
