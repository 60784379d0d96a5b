package reservations

import (
	"context"
	"errors"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/calls/pause"
)

const (
	settleRetryMin = 100 * time.Millisecond
	settleRetryMax = 5 * time.Second
)

// Settle replaces the estimated charge of a task that started by what it really used, as each meter's SettleMode
// allows. Meters that used does not name were exact. The outcome is zero where nothing had to be corrected.
//
// While the store is unavailable Settle keeps trying, with growing pauses, until ctx ends. The deadline of ctx bounds
// how late a settlement may arrive. ID names the start, e.g. by the task and the attempt; it has to differ among all
// starts of the bucket. The bucket remembers the last 64 IDs, so that a correction is applied once, however often it is
// sent.
//
// If an answer was lost, and the bucket may have forgotten the ID or there is none, Settle repeats only what takes:
// giving back twice would let too many start, and taking twice only delays starts. Without an ID call Settle once for
// each start.
//
// Settle ends the charge's Lease, however often it is sent: call it when the call has ended.
//
// The error names each amount that can't be: negative, not a number, or of a meter that the limit does not have. It
// matches as for Ask. The other meters are settled all the same.
func (b *buckets) Settle(ctx context.Context, c Charge, used Tokens, id string) (Outcome, error) {
	return b.settle(ctx, c, used, id, time.Time{})
}

// settle is Settle for a call that ended at a moment of the store's clock; zero where it is not known.
func (b *buckets) settle(
	ctx context.Context, c Charge, used Tokens, id string, ended time.Time,
) (Outcome, error) {
	limit, err := b.bucket(ctx, c)
	if err != nil {
		return Outcome{}, err
	}
	rules := limit.rules()
	back, took := rules.Vector(c.Tokens), rules.Vector(c.Tokens)
	faults := c.layOut(used, limit, took)
	for k, m := range limit.Meters {
		if back[k] -= took[k]; m.keeps(limit) {
			back[k] = min(0, back[k])
		}
	}
	return b.correct(ctx, rules, c, bucket.Request{Tokens: back, Ended: ended}, faults, id)
}

// keeps says whether a settlement gives nothing back to the meter.
func (m Meter) keeps(l Limit) bool {
	if m.Settle == "" {
		return l.Settle == SettleKeep
	}
	return m.Settle == SettleKeep
}

// Cancel gives back all that a start took, whatever the SettleMode: the provider was not called. A task that started
// with promised tokens, by the Held of its charge, has them promised again; clear Held if it gives up. Otherwise Cancel
// is as Settle, and shares its IDs: of a Settle and a Cancel of one start, the first counts.
func (b *buckets) Cancel(ctx context.Context, start Outcome, id string) (Outcome, error) {
	limit, err := b.bucket(ctx, start.Charge)
	if err != nil {
		return Outcome{}, err
	}
	rules := limit.rules()
	return b.correct(ctx, rules, start.Charge, unmade(rules, start), nil, id)
}

// unmade gives back what a start took whose call was never made. What the provider's full bucket has lost since the
// call could begin does not come back.
func unmade(rules bucket.Limit, start Outcome) bucket.Request {
	c, r := start.Charge, bucket.Request{Op: bucket.OpSettle}
	r.Tokens, r.Reserved, r.HoldEnd = rules.Vector(c.Tokens), c.Held == bucket.StateReserved, c.HoldEnd
	if !start.At.IsZero() {
		r.Began = start.At.Add(start.Hold)
	}
	return r
}

// correct gives back until the store has answered.
func (b *buckets) correct(
	ctx context.Context, rules bucket.Limit, c Charge, r bucket.Request, faults error, id string,
) (o Outcome, err error) {
	r.Op, r.ID, r.Lease, r.HoldEnd = bucket.OpSettle, settlementID(id), c.Lease, c.HoldEnd
	first, lost := time.Now(), false // an answer
	err = retry(ctx, func(again bool) error {
		if again {
			r.Late = time.Since(first)
		}
		if lost && r.ID == 0 {
			r.Tokens = bucket.OnlyTaken(r.Tokens)
		} else if lost { // the first one may arrive later than this one
			r.For = time.Since(first) + 2*b.timeout
		}
		if !slices.ContainsFunc(r.Tokens, func(n float64) bool { return n != 0 }) {
			if r.ID = 0; r.Lease == 0 {
				return nil
			}
		}
		var failed error
		o, failed = b.askOne(ctx, rules, c, r)
		u, says := errors.AsType[*bucket.UnavailableError](failed)
		lost = lost || !says || u.Applied != bucket.AppliedNo
		return failed
	})
	return o, errors.Join(faults, err)
}

// retry asks until the store answers, with growing pauses that end with patience.
func retry(patience context.Context, ask func(again bool) error) error {
	for n := 0; ; n++ {
		err := ask(n > 0)
		if err == nil || !errors.Is(err, ErrUnavailable) || patience.Err() != nil || pause.For(patience, retryIn(n)) != nil {
			return err
		}
	}
}

// retryIn is how long to wait for a store that did not answer, after n other such waits.
func retryIn(n int) time.Duration {
	wait := min(settleRetryMin<<min(n, 6), settleRetryMax)
	return wait/2 + rand.N(wait) //nolint:gosec // jitter needs no secrecy
}

// settlementID is what the bucket keeps of an id, zero for none.
func settlementID(id string) int64 {
	if id == "" {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))             // a hash takes all
	if sum := int64(h.Sum64()); sum != 0 { //nolint:gosec // any 64 bits will do
		return sum
	}
	return 1
}

// layOut puts amounts where the limit has their meters. The error names each amount that can't be; it is left out.
func (c Charge) layOut(amounts Tokens, l Limit, into []float64) error {
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		if err := c.validateAmount(l, name, amounts[name]); err != nil {
			faults = append(faults, err)
			continue
		}
		into[l.meter(name)] = amounts[name]
	}
	return errors.Join(faults...)
}
