package reservations

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// CallTimeoutDefault bounds one call to the store.
const CallTimeoutDefault = 5 * time.Second

// Config is what a Limiter may be told beside its limits. The zero value is fine.
type Config struct {
	// CallTimeout bounds one call to the store; a call that takes longer counts as ErrUnavailable. Defaults to 5 seconds.
	CallTimeout time.Duration
}

// Limiter asks a Store for the buckets of a set of limits. It checks charges before anything is sent, shares round trips
// between callers that wait for the same bucket, and keeps settlements exact where the network is not. Safe for concurrent use.
type Limiter struct {
	limits  map[string]Limit
	names   []string // sorted
	store   Store
	combine *combiner
}

// New returns a Limiter for limits that keeps its buckets in store. The error joins every fault of every limit and matches ErrInvalidLimit.
func New(store Store, limits []Limit, config Config) (*Limiter, error) {
	l := &Limiter{limits: map[string]Limit{}, store: store}
	var faults []error
	for _, limit := range limits {
		if err := limit.Validate(); err != nil {
			faults = append(faults, err)
		}
		if _, twice := l.limits[limit.Name]; twice {
			faults = append(faults, &LimitError{Limit: limit.Name, Err: &FieldError{Field: "name", Problem: "is there twice"}})
		}
		l.limits[limit.Name] = limit
		l.names = append(l.names, limit.Name)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	slices.Sort(l.names)
	timeout := config.CallTimeout
	if timeout <= 0 {
		timeout = CallTimeoutDefault
	}
	l.combine = newCombiner(store, timeout)
	return l, nil
}

// Names are the names of the limits, sorted.
func (l *Limiter) Names() []string { return slices.Clone(l.names) }

// Limit returns the limit of that name, or an error that matches ErrUnknownLimit.
func (l *Limiter) Limit(name string) (Limit, error) {
	limit, ok := l.limits[name]
	if !ok {
		return Limit{}, &ChargeError{Charge: Charge{Limit: name}, Err: ErrUnknownLimit, Problem: fmt.Sprintf("%q is not configured; there are %q", name, l.names)}
	}
	return limit, nil
}

// Validate reports why a charge could never be served; see IsPermanent. It asks no store.
func (l *Limiter) Validate(c Charge) error {
	limit, err := l.Limit(c.Limit)
	if err != nil {
		return err
	}
	return c.Validate(limit)
}

// Begin asks whether the task with this charge may start now. Place is what it was last given, zero for a new task. When
// the outcome is not started, the task keeps Outcome.Place and comes back when it is due.
//
// Errors: IsPermanent ones at once; ErrUnavailable when the store could not answer, and then the task must not start. Its
// charge may have been taken all the same; that heals by refill.
func (l *Limiter) Begin(ctx context.Context, c Charge, p Place) (Outcome, error) {
	return l.one(ctx, c, OpBegin, p)
}

// Reserve gives a new task a time without the right to start now: the outcome is StateReserved, or StateTicket behind
// max_reserved. The task then begins with Outcome.Place; a reservation that will not be used is given up by Release. Errors as for Begin.
func (l *Limiter) Reserve(ctx context.Context, c Charge) (Outcome, error) {
	return l.one(ctx, c, OpReserve, Place{})
}

// ReserveMany reserves for charges of one bucket, in order, in as few round trips as possible. Either all are reserved or,
// with an error, none need be kept: what was taken of them heals by refill. All charges must name the same limit and key.
func (l *Limiter) ReserveMany(ctx context.Context, charges []Charge) ([]Outcome, error) {
	if len(charges) == 0 {
		return nil, nil
	}
	limit, err := l.Limit(charges[0].Limit)
	if err != nil {
		return nil, err
	}
	requests := make([]Request, len(charges))
	for i, c := range charges {
		if c.Bucket() != charges[0].Bucket() {
			return nil, &ChargeError{Charge: c, Err: ErrInvalidCharge, Problem: "all charges must be for bucket " + charges[0].Bucket()}
		}
		if err := c.Validate(limit); err != nil {
			return nil, err
		}
		requests[i] = Request{Op: OpReserve, Tokens: c.Tokens.vector(limit), Urgent: c.Urgent}
	}
	return l.combine.apply(ctx, limit.forKey(charges[0].Key), charges[0].Key, requests...)
}

// Check answers as Begin would for a new task, and changes nothing.
func (l *Limiter) Check(ctx context.Context, c Charge) (Outcome, error) {
	return l.one(ctx, c, OpCheck, Place{})
}

// Take starts now or not at all: no place is kept, and nobody waits or holds. The outcome is StateStarted, to be settled as
// any other start, or StateRefused, and then Outcome.Wait is the earliest time at which it would be accepted if nobody else
// asked meanwhile. It never overtakes those who wait. A charge above a meter's capacity is ErrChargeTooLarge, whatever
// MaxReserved is: it could only be owed. Other errors as for Begin.
func (l *Limiter) Take(ctx context.Context, c Charge) (Outcome, error) {
	return l.take(ctx, c, false)
}

// CheckTake answers as Take would, and changes nothing.
func (l *Limiter) CheckTake(ctx context.Context, c Charge) (Outcome, error) {
	return l.take(ctx, c, true)
}

func (l *Limiter) take(ctx context.Context, c Charge, dry bool) (Outcome, error) {
	limit, err := l.Limit(c.Limit)
	if err != nil {
		return Outcome{}, err
	}
	if err := c.validateTake(limit); err != nil {
		return Outcome{}, err
	}
	return l.ask(ctx, limit, c.Key, Request{Op: OpTake, Tokens: c.Tokens.vector(limit), Urgent: c.Urgent, Dry: dry})
}

// Release gives up the place of a task that was never started. Releasing twice gives the place away twice, which may make
// others come too early once; it never lets too many start. Errors as for Begin.
func (l *Limiter) Release(ctx context.Context, c Charge, p Place) (Outcome, error) {
	return l.one(ctx, c, OpRelease, p)
}

// Reset makes the bucket full again. Tasks that wait keep the times they were given. Errors as for Begin.
func (l *Limiter) Reset(ctx context.Context, limit, key string) error {
	known, err := l.Limit(limit)
	if err != nil {
		return err
	}
	return l.store.Reset(ctx, known, key)
}

func (l *Limiter) one(ctx context.Context, c Charge, op Op, p Place) (Outcome, error) {
	limit, err := l.Limit(c.Limit)
	if err != nil {
		return Outcome{}, err
	}
	if err := c.Validate(limit); err != nil {
		return Outcome{}, err
	}
	return l.ask(ctx, limit, c.Key, Request{Op: op, State: p.State, Tokens: c.Tokens.vector(limit), Urgent: c.Urgent})
}

func (l *Limiter) ask(ctx context.Context, limit Limit, key string, r Request) (Outcome, error) {
	outcomes, err := l.combine.apply(ctx, limit.forKey(key), key, r)
	if err != nil {
		return Outcome{}, err
	}
	return outcomes[0], nil
}
