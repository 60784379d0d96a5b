package storetest

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

func testEmptyBatch(d driver) {
	d.limit = oneMeter(10, 5, reservations.NoReserved)
	d.apply()
	if b, _ := d.load(); !b.At.IsZero() {
		d.t.Errorf("a call without requests left %+v", b)
	}
}

// A call that changes nothing is not written, and answers by the newest state.
func testUnchanged(d driver) {
	d.limit = oneMeter(10, 5, reservations.NoReserved)
	d.apply(start(5))
	d.apply(start(1))
	before, _ := d.load()
	other := d
	other.i.Store = d.i.peer(d.t)
	other.apply(ask(bucket.OpSettle, -10))
	d.want(d.one(allow(1)), reservations.StateRefused, 1200*ms) // d wrote last but one
	d.i.Advance(time.Second)
	d.want(d.one(start(5)), reservations.StateWaiting, 600*ms)
	d.want(d.one(ask(bucket.OpRefresh)), reservations.StateSettled, 0)
	after, now := d.load()
	if after.Version != before.Version+1 || now.Sub(after.At) != time.Second {
		d.t.Errorf("three calls that change nothing made\n%+v of\n%+v", after, before)
	}
}

func testReset(d driver) {
	d.limit = oneMeter(1, 5, reservations.Unlimited)
	before := d.apply(start(5), start(5), start(5))[2]
	d.i.Advance(ms)
	d.reset()
	d.reset() // a bucket that is not there can be reset
	if b, _ := d.load(); !reflect.DeepEqual(b, bucket.Bucket{}) {
		d.t.Errorf("after a reset there is %+v", b)
	}
	after := d.one(start(5))
	d.wantStart(after, 0)
	if after.Bucket.Generation <= before.Bucket.Generation || after.Bucket.Version != 1 {
		d.t.Errorf("generation %d follows %d, version %d",
			after.Bucket.Generation, before.Bucket.Generation, after.Bucket.Version)
	}
}

// A reset by another process counts, although this process wrote last; also where the new bucket looks as the old one
// did.
func testResetByAnother(d driver) {
	d.limit = oneMeter(1, 5, reservations.Unlimited)
	for range 3 {
		d.apply(start(1))
	}
	other := d
	other.i.Store = d.i.peer(d.t)
	other.reset()
	other.apply(start(1), start(1), start(2))
	d.wantStart(d.one(allow(1)), 0)
	d.want(d.one(allow(1)), reservations.StateRefused, time.Second)
}

// Load returns the bucket as the last change left it, and the clock.
func testLoad(d driver) {
	d.limit = oneMeter(3, 5, reservations.Unlimited)
	b, now := d.load()
	if !reflect.DeepEqual(b, bucket.Bucket{}) || now.IsZero() {
		d.t.Errorf("there is %+v at %v", b, now)
	}
	d.i.Advance(time.Nanosecond)
	requests := []bucket.Request{
		start(1.1), {Op: bucket.OpSettle, Tokens: []float64{.3}, ID: -1 << 62}, start(20), block(7 * time.Second),
	}
	want := d.apply(requests...)[3].Bucket
	d.i.Advance(123456789)
	b, later := d.load()
	if !reflect.DeepEqual(b, want) || later.Sub(now) != 123456790 {
		d.t.Errorf("after %v loaded\n%+v, want\n%+v", later.Sub(now), b, want)
	}
}

func testApart(d driver) {
	one := d
	one.limit, one.key = oneMeter(10, 5, reservations.NoReserved), "a"
	one.wantStart(one.one(start(5)), 0)
	for _, key := range []string{"", "b", "a:b", "ключ", "$a.b", "a.0", `"`} {
		other := one
		other.key = key
		other.wantStart(other.one(start(5)), 0)
		other.want(other.one(start(5)), reservations.StateWaiting, 500*ms)
	}
}

// A settlement with an ID counts once, as long as the bucket remembers it; then only what takes counts.
func testSettleOnce(d driver) {
	d.limit = oneMeter(10, 10, reservations.Unlimited)
	settle := func(id int64, n float64, age time.Duration) bucket.Request {
		return bucket.Request{Op: bucket.OpSettle, ID: id, Tokens: []float64{n}, For: age}
	}
	d.apply(start(10), settle(-7, 4, 0), settle(-7, 4, 0))
	other := d
	other.i.Store = d.i.peer(d.t)
	other.apply(settle(-7, 4, time.Minute))
	d.wantStart(d.one(allow(4)), 0)
	d.want(d.one(allow(1)), reservations.StateRefused, 100*ms)
	d.i.Advance(time.Second)
	d.wantStart(d.one(allow(10)), 0)
	others := make([]bucket.Request, 64)
	for i := range others {
		others[i] = settle(int64(i+1), 0, 0)
	}
	d.apply(others...)
	d.apply(settle(-7, 5, 10*ms))
	d.want(d.one(allow(1)), reservations.StateRefused, 100*ms)
	d.apply(settle(99, -5, 10*ms))
	d.want(d.one(allow(1)), reservations.StateRefused, 600*ms)
}

func testCancelled(d driver) {
	d.limit = oneMeter(10, 5, reservations.NoReserved)
	ctx, cancel := context.WithCancel(d.t.Context())
	cancel()
	_, err := d.i.Store.Apply(ctx, d.limit.Rules(), "", []bucket.Request{start(5)})
	wantCancelled(d.t, err)
	wantCancelled(d.t, d.i.Store.Reset(ctx, d.limit.Name, ""))
	d.wantStart(d.one(start(5)), 0)
}

func wantCancelled(t *testing.T, err error) {
	t.Helper()
	var u *bucket.UnavailableError
	if !errors.Is(err, reservations.ErrUnavailable) || !errors.Is(err, context.Canceled) || !errors.As(err, &u) {
		t.Fatalf("with a cancelled context the error is %v", err)
	}
	if u.Applied != bucket.AppliedNo || u.Bucket != "limit" || errors.Is(err, reservations.ErrBucket) {
		t.Errorf("applied %q to bucket %q; nothing was sent for bucket limit: %v", u.Applied, u.Bucket, err)
	}
}
