package reservations

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
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
	store   Store
	combine *combiner
	seen    shardAnswers

	set      atomic.Pointer[LimitSet] // each call reads it once
	changing sync.Mutex               // of set: one change at a time
}

// New returns a Limiter for limits that keeps its buckets in store. The error joins every fault of every limit and matches ErrInvalidLimit.
func New(store Store, limits []Limit, config Config) (*Limiter, error) {
	set, err := newLimitSet(limits)
	if err != nil {
		return nil, err
	}
	timeout := config.CallTimeout
	if timeout <= 0 {
		timeout = CallTimeoutDefault
	}
	l := &Limiter{store: store, combine: newCombiner(store, timeout)}
	l.set.Store(set)
	return l, nil
}

// Names are the names of the limits, sorted.
func (l *Limiter) Names() []string { return l.Limits().Names() }

// Limit returns the limit of that name as it is for every key that has no override of its own, or an error that matches ErrUnknownLimit. See
// Limits for more.
func (l *Limiter) Limit(name string) (Limit, error) { return l.Limits().Limit(name) }

// Validate reports why a charge could never be served; see IsPermanent. It asks no store.
func (l *Limiter) Validate(c Charge) error { return l.Limits().validate(c) }

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
// with an error, none need be kept: what was taken of them heals by refill. All charges must name the same limit and key. Where the
// limit has shards they are spread over them evenly, in runs of neighbors.
func (l *Limiter) ReserveMany(ctx context.Context, charges []Charge) ([]Outcome, error) {
	return l.ReserveAhead(ctx, charges, 0)
}

// ReserveAhead is ReserveMany for tasks that can't start before lead from now, as they are on their way so long: no plan counts on what a full bucket
// loses until then. They are still told to come as early as the bucket has room. A lead above Hold counts as Hold: who is later than that sets the line back when it
// comes.
func (l *Limiter) ReserveAhead(ctx context.Context, charges []Charge, lead time.Duration) ([]Outcome, error) {
	if len(charges) == 0 {
		return nil, nil
	}
	set := l.Limits()
	for _, c := range charges {
		if c.Bucket() != charges[0].Bucket() {
			return nil, &ChargeError{Charge: c, Err: ErrInvalidCharge, Problem: "all charges must be for bucket " + charges[0].Bucket()}
		}
		if err := set.validate(c); err != nil {
			return nil, err
		}
	}
	limit, err := set.For(charges[0].Limit, charges[0].Key)
	if err != nil {
		return nil, err
	}
	if limit.shards() == 1 || charges[0].Shard != 0 {
		return l.reserveIn(ctx, set, charges, charges[0].Shard, lead)
	}
	return l.reserveSpread(ctx, set, charges, limit.shards(), lead)
}

// reserveIn reserves all charges in one bucket.
func (l *Limiter) reserveIn(ctx context.Context, set *LimitSet, charges []Charge, shard int, lead time.Duration) ([]Outcome, error) {
	c := charges[0]
	c.Shard = shard
	limit, err := set.bucket(c)
	if err != nil {
		return nil, err
	}
	requests := make([]Request, len(charges))
	for i, c := range charges {
		requests[i] = Request{Op: OpReserve, For: min(max(0, lead), Hold), Tokens: c.Tokens.vector(limit), Urgent: c.Urgent}
	}
	return l.askMany(ctx, limit, c.Key, requests...)
}

// reserveSpread reserves a run of the charges in each shard, side by side.
func (l *Limiter) reserveSpread(ctx context.Context, set *LimitSet, charges []Charge, shards int, lead time.Duration) ([]Outcome, error) {
	shard := l.seen.pick(BucketName(charges[0].Limit, charges[0].Key), shards, 0)
	outcomes := make([]Outcome, len(charges))
	runs := reserveRuns(len(charges), shards)
	faults := make([]error, len(runs))
	var asking sync.WaitGroup
	first := 0
	for i, run := range runs {
		from, to, in := first, first+run, shard
		asking.Go(func() {
			var got []Outcome
			got, faults[i] = l.reserveIn(ctx, set, charges[from:to], in, lead)
			copy(outcomes[from:to], got)
		})
		first, shard = to, shard%shards+1
	}
	asking.Wait()
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return outcomes, nil
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
	limit, c, _, err := l.resolve(c, Place{})
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

// Reset makes the bucket full again, in all its shards. Tasks that wait keep the times they were given. Errors as for Begin.
func (l *Limiter) Reset(ctx context.Context, limit, key string) error {
	limits, err := l.Limits().buckets(Charge{Limit: limit, Key: key})
	if err != nil {
		return err
	}
	_, err = askAll(ctx, limits, func(ctx context.Context, limit Limit) (Outcome, error) {
		return Outcome{}, l.store.Reset(ctx, limit, key)
	})
	return err
}

func (l *Limiter) one(ctx context.Context, c Charge, op Op, p Place) (Outcome, error) {
	limit, c, p, err := l.resolve(c, p)
	if err != nil {
		return Outcome{}, err
	}
	return l.ask(ctx, limit, c.Key, Request{Op: op, State: p.State, Due: p.Due, Tokens: c.Tokens.vector(limit), Urgent: c.Urgent})
}

// resolve checks the charge, and is its limit as the store has to see it, with the charge and the place as that bucket is asked by them.
func (l *Limiter) resolve(c Charge, p Place) (Limit, Charge, Place, error) {
	set := l.Limits()
	if err := set.validate(c); err != nil {
		return Limit{}, c, p, err
	}
	whole, err := set.For(c.Limit, c.Key)
	if err != nil {
		return Limit{}, c, p, err
	}
	c, p = l.choose(whole, c, p)
	limit, err := whole.bucket(c)
	return limit, c, p, err
}

// bucketOf is LimitSet.bucket for a call that needs nothing else of the set.
func (l *Limiter) bucketOf(c Charge) (Limit, error) { return l.Limits().bucket(c) }

// ask sends one request to a bucket. Limit is that of the bucket.
func (l *Limiter) ask(ctx context.Context, limit Limit, key string, r Request) (Outcome, error) {
	outcomes, err := l.askMany(ctx, limit, key, r)
	if err != nil {
		return Outcome{}, err
	}
	return outcomes[0], nil
}

func (l *Limiter) askMany(ctx context.Context, limit Limit, key string, requests ...Request) ([]Outcome, error) {
	limit = limit.forKey(key)
	outcomes, err := l.combine.apply(ctx, limit, key, requests...)
	if _, shard := splitShard(limit.Name); shard != 0 {
		for i := range outcomes {
			outcomes[i].Shard = shard
		}
		if last := len(requests) - 1; requests[last].newcomer() {
			wait := time.Duration(-1)
			if err == nil {
				wait = outcomes[last].Wait()
			}
			l.seen.note(limit.Name, key, shard, limit.lasts(requests[last].Tokens), wait)
		}
	}
	if err != nil {
		return nil, err
	}
	return outcomes, nil
}
