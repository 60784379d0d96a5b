package reservations

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/coalesce"
	"github.com/headway-go/headway/internal/nearest"
)

// CallTimeoutDefault bounds one call to the store.
const CallTimeoutDefault = 5 * time.Second

// Config holds the settings of a Limiter beside its limits. The zero value is ready to use.
type Config struct {
	// CallTimeout bounds one call to the store; a call that takes longer counts as ErrUnavailable. Defaults to 5
	// seconds.
	CallTimeout time.Duration
	// Resolve returns a limit that is not configured, e.g. a user's own, from the program's database. Its answer counts
	// for ResolvedFor in this process, so a changed limit is followed after that time; its Name is set to name. An error
	// that matches ErrUnknownLimit means that there is none. Any other error, and a limit that is not valid, is
	// ErrUnavailable: nothing starts, and tasks wait. It is called for one key at a time, for many keys at once, and
	// for at most CallTimeout. Overrides do not apply to its limits, and a limit's Shards must not change.
	Resolve func(ctx context.Context, name, key string) (Limit, error)
}

// Limiter asks a Store for the buckets of a set of limits. It checks charges before anything is sent, and shares round
// trips between callers that ask for the same bucket. A settlement is applied once although an answer may be lost. Safe
// for concurrent use.
type Limiter struct {
	store   Store
	timeout time.Duration // of one call to the store
	keeper  keeper
	calls   coalesce.Group[bucketKey, asked, bucket.Answer]
	seen    shardAnswers

	clock    storeClock
	delays   startDelays
	resolved resolved
	waitlist atomic.Pointer[Waitlist] // nil: callers wait by themselves
	halted   atomic.Pointer[error]    // the cause of Halt; nil: the store is asked

	set      atomic.Pointer[LimitSet] // each call reads it once
	changing sync.Mutex               // of set: one change at a time
}

// bucketKey names a bucket; limit holds the shard.
type bucketKey struct{ limit, key string }

// asked is a request with the limit that lays out its tokens.
type asked struct {
	limit   bucket.Limit
	request bucket.Request
}

// New returns a Limiter for limits that keeps its buckets in store. The error joins every fault of every limit and
// matches ErrInvalidLimit.
func New(store Store, limits []Limit, config Config) (*Limiter, error) {
	set, err := newLimitSet(limits)
	if err != nil {
		return nil, err
	}
	l := &Limiter{store: store, timeout: config.CallTimeout}
	if l.timeout <= 0 {
		l.timeout = CallTimeoutDefault
	}
	l.calls.Call, l.calls.Timeout = l.call, l.timeout
	l.calls.Same = func(a, b asked) bool { return reflect.DeepEqual(a.limit, b.limit) }
	l.resolved.resolve, l.resolved.last.Most = config.Resolve, resolvedMost
	l.resolved.calls.Call, l.resolved.calls.Timeout = l.resolved.call, l.timeout
	l.seen.taken.Most = seenMost
	l.set.Store(set)
	return l, nil
}

// Validate reports why the charge of a new task could never be served; see IsPermanent. It also refuses a priority that
// the limit does not have, where the limit has priorities, by ErrInvalidCharge: a task that is queued already is served
// with the lowest one. It asks neither the store nor Config.Resolve: a limit that only Resolve knows is checked when
// the bucket is asked.
func (l *Limiter) Validate(c Charge) error {
	limit, err := l.validate(c)
	if err == nil {
		err = c.validateWhole(limit)
	}
	if _, there := limit.Priorities[c.Priority]; err != nil || there || c.Priority == "" || len(limit.Priorities) == 0 {
		return err
	}
	return c.fault(ErrInvalidCharge, "", "priority %q is unknown in limit %q: %s", c.Priority, c.Limit,
		nearest.There(c.Priority, slices.Sorted(maps.Keys(limit.Priorities))))
}

// validate is Validate with any priority. It returns the limit; a zero one where only Resolve may know it.
func (l *Limiter) validate(c Charge) (Limit, error) {
	set, err := l.known(c)
	switch {
	case err != nil:
		return Limit{}, err
	case set == nil:
		return Limit{}, c.validateNames()
	}
	return set.serving(c)
}

// Choose sets the shard of a charge that names none: the better of two, by the last answers. A charge of a limit
// without Shards is returned as it is. Start and Reserve choose a shard themselves; call Choose where the name of the
// bucket is needed before.
func (l *Limiter) Choose(c Charge) Charge {
	set, err := l.known(c)
	if err != nil || set == nil {
		return c
	}
	limit, err := set.For(c.Limit, c.Key)
	if err != nil {
		return c
	}
	return l.choose(limit, c)
}

// Start asks whether the task may start now.
//
// A new task starts when the reserved balance has room. Otherwise the bucket reserves for it in the same step: the
// outcome is StateReserved, or StateWaiting where max_reserved or max_wait leave no room for a promise. A task that has
// waited passes the charge of its last outcome, whose Held is set: it starts when the started balance has room, and
// otherwise the outcome is StateWaiting and nothing changes.
//
// Errors: IsPermanent ones at once; ErrUnavailable when the store could not answer, and then the task must not start.
// Its charge may have been taken all the same; refill heals that.
func (l *Limiter) Start(ctx context.Context, c Charge) (Outcome, error) {
	return l.one(ctx, c, bucket.Request{Op: bucket.OpStart, Promoted: c.Held != "", Reserved: c.Held == StateReserved})
}

// Reserve promises tokens to tasks that will wait, in order, without the right to start now. Each outcome is
// StateReserved, or StateWaiting without a promise. Release gives up a reservation that will not be used.
//
// All charges must name the same limit and key: they are reserved in as few round trips as possible. Either all are
// answered or, with an error, none need be kept: what was reserved for them heals by refill. Where the limit has
// Shards, the charges are spread over them evenly, in runs of neighbors. Errors as for Start.
func (l *Limiter) Reserve(ctx context.Context, charges ...Charge) ([]Outcome, error) {
	if len(charges) == 0 {
		return nil, nil
	}
	set, err := l.limits(ctx, charges[0])
	if err != nil {
		return nil, err
	}
	var limit Limit
	for _, c := range charges {
		if c.Bucket() != charges[0].Bucket() {
			return nil, c.fault(ErrInvalidCharge, "", "bucket is %q: all charges must be for bucket %q",
				c.Bucket(), charges[0].Bucket())
		}
		if limit, err = set.serving(c); err == nil {
			err = c.validateWhole(limit)
		}
		if err != nil {
			return nil, err
		}
	}
	first := l.choose(limit, charges[0])
	n, shards := len(charges), limit.buckets(first)
	if first.Shard == charges[0].Shard { // the caller chose
		shards = shards[:1]
	}
	runs, outcomes := min(n, len(shards)), make([]Outcome, n)
	err = sideBySide(runs, func(i int) error {
		from, to := n*i/runs, n*(i+1)/runs
		return l.reserveIn(ctx, shards[i].Rules(), charges[from:to], outcomes[from:to])
	})
	if err != nil {
		return nil, err
	}
	return outcomes, nil
}

// reserveIn reserves all charges in one bucket, and sets their outcomes.
func (l *Limiter) reserveIn(ctx context.Context, rules bucket.Limit, charges []Charge, outcomes []Outcome) error {
	requests := make([]bucket.Request, len(charges))
	for i, c := range charges {
		requests[i] = bucket.Request{Op: bucket.OpReserve, Tokens: rules.Vector(c.Tokens), Urgent: c.Urgent}
	}
	answers, err := l.ask(ctx, rules, charges[0].Key, requests...)
	for i, a := range answers {
		c := charges[i]
		_, c.Shard = splitShard(rules.Name)
		outcomes[i] = outcome(a, c)
	}
	return err
}

// Check answers for one charge as Allow would, and changes nothing.
func (l *Limiter) Check(ctx context.Context, c Charge) (Outcome, error) {
	c.Lease = 0
	return l.one(ctx, c, bucket.Request{Op: bucket.OpAllow, Dry: true})
}

// Release gives back what a waiting task holds, the Held of its charge, when the task will not start. What is held
// without a promise costs no call. A second release may give new tasks too early a RetryAt; it never lets too many
// start. Errors as for Start.
func (l *Limiter) Release(ctx context.Context, c Charge) (Outcome, error) {
	if c.Held != StateReserved {
		return Outcome{}, nil
	}
	c.Held = ""
	return l.one(ctx, c, bucket.Request{Op: bucket.OpRelease})
}

// Reset makes the bucket full again, in all its shards, and ends a block. Errors as for Start.
func (l *Limiter) Reset(ctx context.Context, limit, key string) error {
	limits, err := l.buckets(ctx, Charge{Limit: limit, Key: key})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	return sideBySide(len(limits), func(i int) error { return l.store.Reset(ctx, limits[i].Name, key) })
}

// Refresh makes the bucket follow the limit in force, in all its shards, and returns their states. A bucket that
// follows it already is only read. Errors as for Start.
func (l *Limiter) Refresh(ctx context.Context, c Charge) ([]Outcome, error) {
	return l.askShards(ctx, c, bucket.Request{Op: bucket.OpRefresh})
}

// Unblock ends the block in force, in all shards: waiting tasks may start at once. Errors as for Start.
func (l *Limiter) Unblock(ctx context.Context, limit, key string) ([]Outcome, error) {
	return l.askShards(ctx, Charge{Limit: limit, Key: key}, bucket.Request{Op: bucket.OpUnblock})
}

// askShards asks all buckets of the charge's limit and key, first that of its shard.
func (l *Limiter) askShards(ctx context.Context, c Charge, r bucket.Request) ([]Outcome, error) {
	limits, err := l.buckets(ctx, c)
	if err != nil {
		return nil, err
	}
	return l.askAll(ctx, limits, c, r)
}

// askAll asks all buckets side by side. The outcomes are in the order of limits, zero where there is none; the error
// joins all.
func (l *Limiter) askAll(ctx context.Context, limits []Limit, c Charge, r bucket.Request) ([]Outcome, error) {
	outcomes := make([]Outcome, len(limits))
	return outcomes, sideBySide(len(limits), func(i int) (err error) {
		outcomes[i], err = l.askOne(ctx, limits[i].Rules(), c, r)
		return err
	})
}

func (l *Limiter) one(ctx context.Context, c Charge, r bucket.Request) (Outcome, error) {
	set, err := l.limits(ctx, c)
	if err != nil {
		return Outcome{}, err
	}
	limit, err := set.serving(c)
	if err == nil && (r.Op == bucket.OpStart || r.Op == bucket.OpAllow) {
		err = c.validateWhole(limit)
	}
	if err != nil {
		return Outcome{}, err
	}
	c = l.choose(limit, c)
	rules := limit.forKey(c.Key).shard(c.Shard).Rules()
	if r.Op == bucket.OpAllow {
		if err = c.validateAtOnce(rules); err != nil {
			return Outcome{}, err
		}
	}
	r.Tokens, r.Urgent, r.Lease = rules.Vector(c.Tokens), c.Urgent, c.Lease
	return l.askOne(ctx, rules, c, r)
}

// askOne sends one request for a charge.
func (l *Limiter) askOne(ctx context.Context, limit bucket.Limit, c Charge, r bucket.Request) (Outcome, error) {
	r, leaseEnd := leased(limit, r)
	answers, err := l.ask(ctx, limit, c.Key, r)
	if err != nil {
		return Outcome{}, err
	}
	_, c.Shard = splitShard(limit.Name)
	o := outcome(answers[0], c)
	o.Charge.Lease, o.Charge.LeaseEnd = 0, time.Time{}
	if o.Started() && !r.Dry && !leaseEnd.IsZero() {
		o.Charge.Lease, o.Charge.LeaseEnd = r.Lease, leaseEnd
	}
	return o, nil
}

// ask sends requests to a bucket together with the requests of other callers.
func (l *Limiter) ask(
	ctx context.Context, limit bucket.Limit, key string, requests ...bucket.Request,
) ([]bucket.Answer, error) {
	at, together := bucketKey{limit: limit.Name, key: key}, make([]asked, len(requests))
	for i, r := range requests {
		together[i] = asked{limit: limit, request: r}
	}
	answers, err := l.calls.Do(ctx, at, together...)
	if err != nil && !errors.Is(err, ErrUnavailable) { // ctx ended while the call was under way, or the store panicked
		err = &bucket.UnavailableError{Bucket: bucket.Name(limit.Name, key), Applied: bucket.AppliedMaybe, Err: err}
	}
	_, shard := splitShard(limit.Name)
	if last := len(requests) - 1; shard != 0 && newcomer(requests[last]) {
		var wait time.Duration // nothing is known after an error
		if err == nil {
			wait = answers[last].Wait()
		}
		l.seen.note(at, wait)
	}
	return answers, err
}

// call makes one round trip for all requests that gathered.
func (l *Limiter) call(ctx context.Context, at bucketKey, all []asked) ([]bucket.Answer, error) {
	if err := l.haltedError(at); err != nil {
		return nil, err
	}
	requests := make([]bucket.Request, len(all))
	for i, a := range all {
		requests[i] = a.request
	}
	return l.store.Apply(ctx, all[0].limit, at.key, requests)
}
