package reservations

import (
	"errors"
	"fmt"
	"time"

	"github.com/headway-go/headway/internal/bucket"
)

var (
	// ErrUnknownLimit is matched when a charge names a limit that is not configured.
	ErrUnknownLimit = errors.New("reservations: unknown limit")
	// ErrUnknownMeter is matched when a charge names a meter that its limit does not have.
	ErrUnknownMeter = errors.New("reservations: unknown meter")
	// ErrInvalidCharge is matched when an amount is no number from 0 to 1e15, or when the limit has no such shard. So are
	// a limit, a key, a flow and a priority whose name can't be one.
	ErrInvalidCharge = errors.New("reservations: invalid charge")
	// ErrMeterLeftOut is matched when a charge names no amount for a meter of its limit: zero has to be said, so that no
	// mistake starts calls without a limit. MeterInFlight alone may be left out. It matches ErrInvalidCharge too.
	ErrMeterLeftOut = fmt.Errorf("%w, a meter is left out", ErrInvalidCharge)
	// ErrChargeTooLarge is matched when a charge is above what can ever be served. It never becomes servable by waiting.
	ErrChargeTooLarge = errors.New("reservations: charge is too large")
	// ErrDuplicateCharge is matched when two charges of one start are for the same limit and key.
	ErrDuplicateCharge = errors.New("reservations: two charges for one bucket")
	// ErrInvalidLimit is matched by every fault of a limit's definition.
	ErrInvalidLimit = errors.New("reservations: invalid limit")
	// ErrUnavailable is matched when the store could not answer. Nothing that is limited may start.
	ErrUnavailable = bucket.ErrUnavailable
	// ErrBucket is matched when the store answers and only this bucket can't be asked. The causes: its document does
	// not decode; the document or its key is too large; too many writers contend for it; or it takes too long while
	// other buckets are answered. Other buckets may well work. It matches ErrUnavailable too.
	ErrBucket = bucket.ErrBucket
	// ErrContended is matched when a store gave up after too many conflicts with other writers. It matches ErrBucket and
	// ErrUnavailable too.
	ErrContended = bucket.ErrContended
)

// IsPermanent says whether a charge failed for a reason that waiting does not mend: an unknown limit or meter, an
// invalid or a too large charge. A task with such a charge can never start.
func IsPermanent(err error) bool {
	return errors.Is(err, ErrUnknownLimit) || errors.Is(err, ErrUnknownMeter) ||
		errors.Is(err, ErrInvalidCharge) || errors.Is(err, ErrChargeTooLarge)
}

// ChargeError says of which charge, and of which of its meters, an error is. A charge can never be served: Err is the
// sentinel that it matches, and Problem says more. A Wait ended: the charge is the one whose bucket had the caller
// wait, and Err says why it ended. An override can't be in force: the charge has its limit and key alone, and Err says
// why.
type ChargeError struct {
	Charge  Charge
	Meter   string // empty where the error is not about one meter
	Problem string // empty where Err says all
	Err     error
}

func (e *ChargeError) Error() string {
	switch {
	case e.Problem == "":
		return e.Err.Error()
	case e.Meter == "":
		return fmt.Sprintf("%v: %s", e.Err, e.Problem)
	}
	return fmt.Sprintf("%v: %s of %s: %s", e.Err, e.Meter, e.Charge.Bucket(), e.Problem)
}

// Unwrap returns Err.
func (e *ChargeError) Unwrap() error { return e.Err }

// limitError holds the faults of one limit, each a *FieldError; it matches ErrInvalidLimit.
type limitError struct {
	limit string
	err   error
}

func (e *limitError) Error() string { return fmt.Sprintf("limit %q: %v", e.limit, e.err) }

// limitFault is a limitError with one fault.
func limitFault(limit, field, problem string) error {
	return &limitError{limit: limit, err: &FieldError{Limit: limit, Field: field, Problem: problem}}
}

func (*limitError) Is(target error) bool { return target == ErrInvalidLimit }

func (e *limitError) Unwrap() error { return e.err }

// FieldError is one fault of a limit, or of other settings.
type FieldError struct {
	Limit   string // the name of the limit; empty for other settings
	Field   string
	Problem string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

// Reason is why a provider refuses a call.
type Reason = bucket.Reason

const (
	// ReasonLimit means that a limit of the provider refuses the call, or that the provider is overloaded. The empty
	// Reason means the same.
	ReasonLimit = bucket.ReasonLimit
	// ReasonQuota means that the account has no quota left, until people pay or raise it.
	ReasonQuota = bucket.ReasonQuota
	// ReasonKey means that the provider does not accept the key.
	ReasonKey = bucket.ReasonKey
)

// RetryAfterError is a call that the provider refused. See RetryAfter and Refused.
type RetryAfterError struct {
	// After is how long the provider asks to wait, from now. Zero and less name no time.
	After time.Duration
	// Reason is why; empty means ReasonLimit.
	Reason Reason
	// Elsewhere says that the call did not go to the provider of its limit: the limit goes on, and only the caller waits.
	Elsewhere bool
	// Err is what the provider said; nil where there is nothing to say.
	Err error
}

// RetryAfter is what a call under Do returns when the provider refused it and asked to be left alone for d, e.g. by a
// 429: nothing starts in the bucket of the last charge for d. A d of more than MaxBlockMost is cut to it. Zero and less
// name no time: then the bucket pauses as Limiter.Refuse says. The error matches what err matches, which may be nil.
// Handlers of tasks return tasks.RetryAfter.
func RetryAfter(d time.Duration, err error) error { return Refused("", d, err) }

// Refused is RetryAfter with the reason of the refusal.
func Refused(reason Reason, d time.Duration, err error) error {
	return &RetryAfterError{After: min(d, MaxBlockMost), Reason: reason, Err: err}
}

func (e *RetryAfterError) Error() string {
	if e.Err != nil {
		return e.Err.Error()
	}
	if e.After <= 0 {
		return "refused by the provider"
	}
	return fmt.Sprintf("refused by the provider, retry after %v", e.After)
}

// Unwrap returns what the provider said.
func (e *RetryAfterError) Unwrap() error { return e.Err }
