package reservations

import (
	"context"

	"github.com/headway-go/headway/internal/bucket"
)

// Ask asks whether the task may start now.
//
// A new task starts when the reserved balance has room. Otherwise the bucket reserves for it in the same step. The
// outcome is bucket.StateReserved, or bucket.StateWaiting where max_reserved or max_wait leave no room for a promise. A
// task that has waited passes the charge of its last outcome, whose Held is set: it starts when the started balance has
// room, and otherwise the outcome is bucket.StateWaiting and nothing changes.
//
// Errors: IsPermanent ones at once; ErrUnavailable when the store could not answer, and then the task must not start.
// Its charge may have been taken all the same; refill heals that.
func (b *buckets) Ask(ctx context.Context, c Charge) (Outcome, error) { return b.one(ctx, c, asks(c)) }

// askAgain is Ask for the charge of a start whose call was not made, and which is given back in the same step.
func (b *buckets) askAgain(ctx context.Context, late Outcome) (Outcome, error) {
	limit, err := b.bucket(ctx, late.Charge)
	if err != nil {
		return Outcome{}, err
	}
	return b.one(ctx, late.Charge, asks(late.Charge), unmade(limit.rules(), late))
}

// asks is the request of Ask.
func asks(c Charge) bucket.Request {
	return bucket.Request{Op: bucket.OpStart, Promoted: c.Held != "", Reserved: c.Held == bucket.StateReserved}
}

// Reserve promises tokens to tasks that will wait, in order, without the right to start now. Each outcome is
// bucket.StateReserved, or bucket.StateWaiting without a promise. Release gives up a reservation that will not be used.
//
// All charges must name the same limit and key: they are reserved in as few round trips as possible. Either all are
// answered or, with an error, none need be kept: what was reserved for them heals by refill. Where the limit has
// Shards, the charges are spread over them evenly, in runs of neighbors. Errors as for Ask.
func (b *buckets) Reserve(ctx context.Context, charges ...Charge) ([]Outcome, error) {
	if len(charges) == 0 {
		return nil, nil
	}
	set, err := b.having(ctx, charges[0])
	if err != nil {
		return nil, err
	}
	var limit Limit
	for i, c := range charges {
		if c.Bucket() != charges[0].Bucket() {
			return nil, c.fault(ErrInvalidCharge, "", "bucket is %q: all charges must be for bucket %q",
				c.Bucket(), charges[0].Bucket())
		}
		if i > 0 { // limits has checked the first
			err = c.validateTerms()
		}
		if err == nil {
			limit, err = set.serving(c)
		}
		if err == nil {
			err = c.validateWhole(limit)
		}
		if err != nil {
			return nil, err
		}
	}
	first := b.choose(limit, charges[0])
	n, shards := len(charges), limit.buckets(first)
	if first.Shard == charges[0].Shard { // the caller chose
		shards = shards[:1]
	}
	runs, outcomes := min(n, len(shards)), make([]Outcome, n)
	err = sideBySide(runs, func(i int) error {
		from, to := n*i/runs, n*(i+1)/runs
		return b.reserveIn(ctx, shards[i], charges[from:to], outcomes[from:to])
	})
	if err != nil {
		return nil, err
	}
	return outcomes, nil
}

// reserveIn reserves all charges in one bucket, and sets their outcomes.
func (b *buckets) reserveIn(ctx context.Context, in ofBucket, charges []Charge, outcomes []Outcome) error {
	rules, requests := in.rules(), make([]bucket.Request, len(charges))
	for i, c := range charges {
		requests[i] = bucket.Request{Op: bucket.OpReserve, Tokens: rules.Vector(c.Tokens), Urgent: c.Urgent}
	}
	answers, err := b.ask(ctx, in.at, rules, requests...)
	for i, a := range answers {
		outcomes[i] = outcome(a, in.charge(charges[i]))
	}
	return err
}

// Check answers for one charge as Allow would, and changes nothing.
func (b *buckets) Check(ctx context.Context, c Charge) (Outcome, error) {
	c.Lease = 0
	return b.one(ctx, c, bucket.Request{Op: bucket.OpAllow, Dry: true})
}

// Release gives back what a waiting task holds, the Held of its charge, when the task will not start. What is held
// without a promise costs no call. A second release may give new tasks too early a RetryAt; it never lets too many
// start. Errors as for Ask.
func (b *buckets) Release(ctx context.Context, c Charge) (Outcome, error) {
	if c.Held != bucket.StateReserved {
		return Outcome{}, nil
	}
	c.Held = ""
	return b.one(ctx, c, bucket.Request{Op: bucket.OpRelease})
}

// Refresh makes the bucket follow the limit in force, in all its shards, and returns their states. A bucket that
// follows it already is only read. Errors as for Ask.
func (b *buckets) Refresh(ctx context.Context, c Charge) ([]Outcome, error) {
	return b.askShards(ctx, c, bucket.Request{Op: bucket.OpRefresh})
}

// Unblock ends the block in force, in all shards: waiting tasks may start at once. Errors as for Ask.
func (b *buckets) Unblock(ctx context.Context, limit, key string) ([]Outcome, error) {
	return b.askShards(ctx, Charge{Limit: limit, Key: key}, bucket.Request{Op: bucket.OpUnblock})
}
