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
	// a limit, a key, a flow and a priority whose name can't be one. So are two charges of one start for one bucket.
	ErrInvalidCharge = errors.New("reservations: invalid charge")
	// ErrMeterLeftOut is matched when a charge names no amount for a meter of its limit: zero has to be said, so that no
	// mistake starts calls without a limit. MeterInFlight alone may be left out. It matches ErrInvalidCharge too.
	ErrMeterLeftOut = fmt.Errorf("%w, a meter is left out", ErrInvalidCharge)
	// ErrChargeTooLarge is matched when a charge is above what can ever be served. It never becomes servable by waiting.
	ErrChargeTooLarge = errors.New("reservations: charge is too large")
	// ErrInvalidLimit is matched by every fault of a limit's definition.
	ErrInvalidLimit = errors.New("reservations: invalid limit")
	// ErrUnavailable is matched when the store could not answer, or only this bucket can't be asked. Nothing that is
	// limited may start. Causes of one bucket are: its document does not decode; the document or its key is too large;
	// too many writers contend for it; or it takes too long while other buckets are answered.
	ErrUnavailable = bucket.ErrUnavailable
)

// IsPermanent says whether a charge failed for a reason that waiting does not mend: an unknown limit or meter, an
// invalid or a too large charge. A task with such a charge can never start.
// It says nothing of tasks.ErrPermanent, which a handler returns.
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
type Reason string

const (
	// ReasonLimit means that a limit of the provider refuses the call, or that the provider is overloaded. The empty
	// Reason means the same.
	ReasonLimit Reason = "limit"
	// ReasonQuota means that the account has no quota left, until people pay or raise it.
	ReasonQuota Reason = "quota"
	// ReasonKey means that the provider does not accept the key.
	ReasonKey Reason = "key"
)

// RetryAfterError is a call that the provider refused: what RetryAfter returns, or one with a Reason.
//
// A refusal that names a time stops the bucket of the last charge for that time. Any other pauses it for a second and
// more, for a quota or a key for 15. Each refusal in a row doubles that. Until a call has a good answer, starts are as
// far apart. Each refusal lowers the rates of adaptive meters.
//
// The refusals of one caller, a flow or a task, stop the bucket for the limit's max_block in all. A good answer to the
// caller ends that count. With each other caller that was refused and has no good answer yet, that is half as long.
// Beyond that the bucket goes on, and the caller alone has to wait. A quota or key that other callers can use stops no
// bucket either.
type RetryAfterError struct {
	// After is how long the provider asks to wait, from now. Zero and less name no time. More than 24 hours counts as
	// 24 hours.
	After time.Duration
	// Reason is why; empty means ReasonLimit.
	Reason Reason
	// Elsewhere says that the call did not go to the provider of its limit: the limit goes on, and only the caller waits.
	Elsewhere bool
	// Err is what the provider said; nil where there is nothing to say.
	Err error
}

// RetryAfter is what a call under Do, or the handler of a task, returns when the provider refused it, e.g. by a 429.
// The provider asked to be left alone for d: nothing starts in the bucket of the last charge for d, in the whole fleet.
// The task is the first to start after that, and uses no retry. A task or call without a charge waits for d alone.
//
// A d of more than 24 hours is cut to that. Zero and less name no time: the bucket pauses as RetryAfterError says.
// The error matches what err matches, which may be nil. If it matches tasks.ErrPermanent, the task is archived and
// nothing is blocked.
func RetryAfter(d time.Duration, err error) error {
	return &RetryAfterError{After: min(d, bucket.MaxBlockMost), Err: err}
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
