package reservations

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/headway-go/headway/internal/bucket"
)

const (
	// renewEvery is how often the leases of a bucket are renewed, all of a process together.
	renewEvery = bucket.LeaseLasts / 4
	// renewAgain is how soon they are renewed again where the store did not answer.
	renewAgain = time.Second
)

// ErrLeaseLost is matched by the cause with which Grant.Keep ends a context: the slots of a call could not be kept.
var ErrLeaseLost = errors.New("reservations: lease of a call in flight lost")

// errNotYet is why a lease ends that has not been renewed yet.
var errNotYet = errors.New("the process was too slow to renew it")

// keeper renews the leases of calls in flight, all leases of one bucket together. Safe for concurrent use.
type keeper struct {
	buckets *buckets

	mu   sync.Mutex // guards what is below, and all it leads to
	kept map[BucketName]*keptBucket
}

// keptBucket are the calls of this process in one bucket.
type keptBucket struct {
	charge Charge // names the bucket
	calls  map[*keptCall]struct{}
	timer  *time.Timer // of the next renewal
}

// keptCall is a call with a lease.
type keptCall struct {
	lease    int64
	end      time.Time   // when the call has to have ended
	err      error       // of the last renewal
	timer    *time.Timer // of the end of the lease
	cancel   context.CancelCauseFunc
	answered func(o Outcome) // may be nil
}

// keepAll renews the leases of the charges until stop is called, when the call has ended; settle the charges after
// that. All leases that a process has of one bucket are renewed by one request every 5 seconds. The context ends before
// a lease does, with a cause that matches ErrLeaseLost: where the store does not answer for 20 seconds, and at the next
// renewal where the bucket has forgotten the lease. A call that goes on after that may be one too many; its lease is
// renewed until stop, if the store answers again in time. Without a lease it sends nothing.
//
// Answered gets the answers of the buckets to the renewals; nil means that no caller wants them. It must not block.
func (k *keeper) keepAll(
	ctx context.Context, answered func(o Outcome), charges ...Charge,
) (kept context.Context, stop func()) {
	kept, cancel := context.WithCancelCause(ctx)
	var stops []func()
	for _, c := range charges {
		if c.Lease != 0 {
			stops = append(stops, k.keep(c, &keptCall{
				lease: c.Lease, end: c.LeaseEnd, err: errNotYet, cancel: cancel, answered: answered,
			}))
		}
	}
	return kept, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(nil)
	}
}

// keep renews one lease until stop is called.
func (k *keeper) keep(c Charge, call *keptCall) (stop func()) {
	name := c.Bucket()
	k.mu.Lock()
	defer k.mu.Unlock()
	call.timer = time.AfterFunc(time.Until(c.LeaseEnd), func() { k.expire(name, call) })
	b := k.kept[name]
	if b == nil {
		b = &keptBucket{charge: c, calls: map[*keptCall]struct{}{}}
		b.timer = time.AfterFunc(renewEvery, func() { k.renew(name, b) })
		if k.kept == nil {
			k.kept = map[BucketName]*keptBucket{}
		}
		k.kept[name] = b
	}
	b.calls[call] = struct{}{}
	return func() { k.leave(name, b, call) }
}

// leave ends the renewals of a call. The first call that follows begins the next ones.
func (k *keeper) leave(name BucketName, b *keptBucket, call *keptCall) {
	k.mu.Lock()
	defer k.mu.Unlock()
	call.timer.Stop()
	delete(b.calls, call)
	if len(b.calls) == 0 && k.kept[name] == b {
		b.timer.Stop()
		delete(k.kept, name)
	}
}

// expire ends the context of a call whose lease was not renewed.
func (k *keeper) expire(name BucketName, call *keptCall) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Now().Before(call.end) { // renewed meanwhile
		return
	}
	call.cancel(fmt.Errorf("%w: bucket %s: not renewed within %v: %w", ErrLeaseLost, name, bucket.LeaseLasts, call.err))
}

// renew renews the leases of a bucket, and plans the next renewal.
func (k *keeper) renew(name BucketName, b *keptBucket) {
	k.mu.Lock()
	calls := slices.Collect(maps.Keys(b.calls))
	k.mu.Unlock()
	if len(calls) == 0 {
		return
	}
	end := time.Now().Add(bucket.LeaseLasts)
	answers, err := k.buckets.sendRenewals(b.charge, calls)
	next := renewEvery
	if err != nil {
		next = renewAgain
	}
	for _, call := range calls {
		if err == nil && call.answered != nil {
			call.answered(outcome(answers[len(answers)-1], b.charge))
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, call := range calls {
		if _, runs := b.calls[call]; !runs {
			continue
		}
		switch {
		case err != nil:
			call.err = err
		case answers[i].State == bucket.StateRefused:
			call.cancel(fmt.Errorf("%w: bucket %s has forgotten it", ErrLeaseLost, name))
		default:
			call.end, call.err = end, errNotYet
			call.timer.Reset(time.Until(end))
		}
	}
	if len(b.calls) > 0 {
		b.timer.Reset(next)
	}
}

// sendRenewals renews the leases of calls of one bucket in one call of the store.
func (b *buckets) sendRenewals(c Charge, calls []*keptCall) ([]bucket.Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), b.timeout)
	defer cancel()
	limit, err := b.bucket(ctx, c)
	if err != nil {
		return nil, err
	}
	requests := make([]bucket.Request, len(calls))
	for i, call := range calls {
		requests[i] = bucket.Request{Op: bucket.OpRenew, Lease: call.lease, For: bucket.LeaseKept}
	}
	return b.ask(ctx, c.Bucket(), limit.rules(), requests...)
}

// leased gives a start that takes slots a lease, unless it has one, and returns its end; zero for other requests.
func leased(l bucket.Limit, r bucket.Request) (bucket.Request, time.Time) {
	if r.Op != bucket.OpStart && r.Op != bucket.OpAllow || !l.TakesSlots(r.Tokens) {
		return r, time.Time{}
	}
	if r.Lease == 0 {
		r.Lease = rand.Int64() | 1 //nolint:gosec // distinguishes leases, needs no secrecy
	}
	r.For = bucket.LeaseKept
	return r, time.Now().Add(bucket.LeaseLasts)
}
