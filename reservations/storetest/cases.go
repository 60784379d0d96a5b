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

// Requests of one call are folded in order, at one moment.
func testFold(d driver) {
	d.limit = oneMeter(10, 5, 0)
	got := d.apply(start(5), start(4), ask(bucket.OpSettle, 2), promoted(2), start(1))
	d.wantStart(got[0], 0)
	d.want(got[1], bucket.StateReserved, 400*ms)
	d.want(got[2], bucket.StateSettled, 0)
	d.wantStart(got[3], 0)
	d.want(got[4], bucket.StateReserved, 300*ms)
	for k, o := range got {
		if o.Bucket.Version != int64(k+1) || o.Bucket.Generation != got[0].Bucket.Generation || !o.At.Equal(got[0].At) {
			d.t.Errorf("outcome %d is of version %d, generation %d, at %v", k, o.Bucket.Version, o.Bucket.Generation, o.At)
		}
	}
	d.i.Advance(300 * ms)
	d.wantStart(d.one(promoted(1)), 0)
	d.i.Advance(time.Hour)
	d.wantStart(d.one(start(5)), 0) // never more than the capacity
	d.want(d.one(start(4)), bucket.StateReserved, 400*ms)
}

func testEmptyBatch(d driver) {
	d.limit = oneMeter(10, 5, reservations.None)
	d.apply()
	if b, _ := d.load(); !b.At.IsZero() {
		d.t.Errorf("a call without requests left %+v", b)
	}
}

// Limits with several meters, windows and headroom: a store keeps all that a meter has.
func testMeters(d driver) {
	d.limit = reservations.Limit{Name: "limit", Meters: []reservations.Meter{
		{Name: "requests", Rate: 10, Period: time.Second, Capacity: 10, Headroom: 4},
		{Name: "daily", Kind: reservations.KindWindow, Rate: 7, Period: time.Minute, Start: 20 * time.Second, MaxReserved: 3},
	}}
	d.wantStart(d.one(start(6, 1)), 0)
	d.want(d.one(allow(1, 1)), bucket.StateRefused, 100*ms)
	urgent := start(4, 4)
	urgent.Urgent = true
	d.wantStart(d.one(urgent), 0)
	d.want(d.one(start(0, 3)), bucket.StateReserved, 20*time.Second) // a Clock stands at a whole minute
	d.want(d.one(start(0, 3)), bucket.StateWaiting, 20*time.Second)  // max_reserved
	d.i.Advance(20*time.Second - time.Microsecond)
	d.want(d.one(allow(0, 3)), bucket.StateRefused, time.Microsecond)
	d.i.Advance(time.Microsecond)
	d.wantStart(d.one(promoted(0, 3)), 0)
}

// A dry request answers and leaves nothing behind.
func testDry(d driver) {
	d.limit = oneMeter(10, 5, 0)
	d.wantStart(d.one(dry(start(5))), 0)
	if b, _ := d.load(); !b.At.IsZero() {
		d.t.Errorf("a dry request left %+v", b)
	}
	d.apply(start(5))
	before, _ := d.load()
	d.i.Advance(100 * ms)
	for range 2 {
		d.wantStart(d.one(dry(start(2))), 100*ms)
		d.want(d.one(dry(start(5))), bucket.StateReserved, 400*ms)
		d.want(d.one(dry(allow(2))), bucket.StateRefused, 100*ms)
		d.apply(dry(ask(bucket.OpSettle, 5)), dry(block(time.Hour)))
	}
	if after, _ := d.load(); !reflect.DeepEqual(before, after) {
		d.t.Errorf("dry requests made\n%+v of\n%+v", after, before)
	}
}

// A call that changes nothing is not written, and answers by the newest state.
func testUnchanged(d driver) {
	d.limit = oneMeter(10, 5, reservations.None)
	d.apply(start(5))
	d.apply(start(1))
	before, _ := d.load()
	other := d
	other.i.Store = d.i.peer(d.t)
	other.apply(ask(bucket.OpSettle, -10))
	d.want(d.one(allow(1)), bucket.StateRefused, 1200*ms) // d wrote last but one
	d.i.Advance(time.Second)
	d.want(d.one(start(5)), bucket.StateWaiting, 600*ms)
	d.want(d.one(ask(bucket.OpRefresh)), bucket.StateSettled, 0)
	after, now := d.load()
	if after.Version != before.Version+1 || now.Sub(after.At) != time.Second {
		d.t.Errorf("three calls that change nothing made\n%+v of\n%+v", after, before)
	}
}

func testReset(d driver) {
	d.limit = oneMeter(1, 5, 0)
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
	d.limit = oneMeter(1, 5, 0)
	for range 3 {
		d.apply(start(1))
	}
	other := d
	other.i.Store = d.i.peer(d.t)
	other.reset()
	other.apply(start(1), start(1), start(2))
	d.wantStart(d.one(allow(1)), 0)
	d.want(d.one(allow(1)), bucket.StateRefused, time.Second)
}

// Load returns the bucket as the last change left it, and the clock.
func testLoad(d driver) {
	d.limit = oneMeter(3, 5, 0)
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
	one.limit, one.key = oneMeter(10, 5, reservations.None), "a"
	one.wantStart(one.one(start(5)), 0)
	for _, key := range []string{"", "b", "a:b", "ключ", "$a.b", "a.0", `"`} {
		other := one
		other.key = key
		other.wantStart(other.one(start(5)), 0)
		other.want(other.one(start(5)), bucket.StateWaiting, 500*ms)
	}
}

// A clock that runs back a little changes nothing. One that runs back far is followed, and nothing comes back for that
// step.
func testClockBack(d driver) {
	d.limit = oneMeter(10, 5, 0)
	first := d.one(start(5))
	d.i.Advance(-30 * time.Second)
	back := d.one(start(3))
	d.want(back, bucket.StateReserved, 300*ms)
	if !back.At.Equal(first.At) {
		d.t.Errorf("decided at %v, want %v", back.At, first.At)
	}
	d.i.Advance(30*time.Second + 300*ms)
	d.wantStart(d.one(promoted(3)), 0)
	d.i.Advance(-time.Hour)
	far := d.one(start(3))
	d.want(far, bucket.StateReserved, 300*ms)
	if got := first.At.Add(300 * ms).Sub(far.At); got != time.Hour {
		d.t.Errorf("the bucket followed the clock by %v, want 1h", got)
	}
	d.i.Advance(300 * ms)
	d.wantStart(d.one(promoted(3)), 0)
}

// A limit that changes: the next call follows it, a refresh is enough, and a meter that a limit lacks is kept until it
// is full.
func testChange(d driver) {
	meter := func(name string, rate float64) reservations.Meter {
		m := oneMeter(rate, 10, 0).Meters[0]
		m.Name = name
		return m
	}
	d.limit = reservations.Limit{Name: "limit", Meters: []reservations.Meter{meter("a", 10), meter("b", 1)}}
	d.apply(start(10, 10))
	d.limit.Meters = []reservations.Meter{meter("c", 1), meter("a", 5)}
	refreshed := d.one(ask(bucket.OpRefresh))
	b, _ := d.load()
	if len(b.Meters) != 3 || b.Meters[0].Name != "c" || b.Meters[1].Name != "a" || b.Meters[2].Name != "b" ||
		b.Meters[1].Filling.Rate != 5 || !reflect.DeepEqual(b, refreshed.Bucket) {
		d.t.Errorf("after a refresh there is %+v, want %+v", b, refreshed.Bucket)
	}
	d.want(d.one(dry(start(0, 10))), bucket.StateReserved, 2*time.Second)
	d.limit.Meters = []reservations.Meter{meter("b", 1)}
	d.i.Advance(4 * time.Second)
	d.want(d.one(allow(5)), bucket.StateRefused, time.Second)
}

// A settlement with an ID counts once, as long as the bucket remembers it; then only what takes counts.
func testSettleOnce(d driver) {
	d.limit = oneMeter(10, 10, 0)
	settle := func(id int64, n float64, age time.Duration) bucket.Request {
		return bucket.Request{Op: bucket.OpSettle, ID: id, Tokens: []float64{n}, For: age}
	}
	d.apply(start(10), settle(-7, 4, 0), settle(-7, 4, 0))
	other := d
	other.i.Store = d.i.peer(d.t)
	other.apply(settle(-7, 4, time.Minute))
	d.wantStart(d.one(allow(4)), 0)
	d.want(d.one(allow(1)), bucket.StateRefused, 100*ms)
	d.i.Advance(time.Second)
	d.wantStart(d.one(allow(10)), 0)
	others := make([]bucket.Request, 64)
	for i := range others {
		others[i] = settle(int64(i+1), 0, 0)
	}
	d.apply(others...)
	d.apply(settle(-7, 5, 10*ms))
	d.want(d.one(allow(1)), bucket.StateRefused, 100*ms)
	d.apply(settle(99, -5, 10*ms))
	d.want(d.one(allow(1)), bucket.StateRefused, 600*ms)
}

// Nothing starts during a block, whatever is given back.
func testBlock(d driver) {
	d.limit = oneMeter(10, 5, 0)
	d.want(d.one(block(2*time.Second)), bucket.StateSettled, 2*time.Second)
	d.want(d.one(block(time.Second)), bucket.StateSettled, 2*time.Second) // inside
	d.apply(ask(bucket.OpSettle, 100))
	d.i.Advance(time.Second)
	d.want(d.one(allow(0)), bucket.StateRefused, time.Second)
	d.want(d.one(bucket.Request{Op: bucket.OpUnblock}), bucket.StateSettled, 0)
	d.wantStart(d.one(allow(0)), 0)
	d.want(d.one(block(time.Hour)), bucket.StateSettled, bucket.MaxBlockDefault)
}

// A provider's balance corrects downwards, and upwards where that is asked for.
func testSync(d driver) {
	d.limit = oneMeter(10, 10, 0)
	sync := bucket.Request{Op: bucket.OpSync, Tokens: []float64{4}, For: 100 * ms}
	d.apply(sync)
	d.wantStart(d.one(allow(5)), 0)
	d.apply(sync)
	d.want(d.one(allow(1)), bucket.StateRefused, 100*ms)
	sync.Up = true
	d.apply(sync)
	d.wantStart(d.one(allow(5)), 0)
}

// A store keeps the rate that an adaptive meter has found, also for another process, and for a while after the bucket
// is full.
func testAdaptive(d driver) {
	d.limit = oneMeter(1, 10, 0)
	d.limit.Meters[0].Adaptive = reservations.Adaptive{Max: 121}
	d.wantStart(d.one(start(10)), 0)
	d.i.Advance(5 * time.Second)
	d.wantStart(d.one(start(5)), 0) // 5 seconds of use
	other := d
	other.i.Store = d.i.peer(d.t)
	rate := func(o bucket.Answer) float64 { return o.Bucket.Meters[0].Filling.Rate }
	if got := rate(other.one(dry(start(6)))); got != 6 {
		d.t.Errorf("rate %v after 5 seconds of use, want 6", got)
	}
	o := other.one(block(100 * ms))
	if got := rate(d.one(block(50 * ms))); got != rate(o) || got < 4.19 || got > 4.21 {
		d.t.Errorf("rate %v after two refusals at once, want 0.7 times 6", got)
	}
	d.i.Advance(time.Hour)
	if b, _ := d.load(); len(b.Meters) != 1 || b.Meters[0].Filling.Rate != rate(o) || !b.Meters[0].Slowed.Equal(o.At) {
		d.t.Errorf("an hour later there is %+v, want the rate %v, lowered at %v", b, rate(o), o.At)
	}
}

// A bucket remembers the holds of started tasks: a store returns them exactly, also to another process.
func testHolds(d driver) {
	d.limit = oneMeter(10, 10, 0)
	b := d.limit.Meters[0]
	b.Name = "b"
	d.limit.Meters = append(d.limit.Meters, b)
	o := d.apply(start(10, 0), start(1, 1.1), start(.6, 2.3))[2]
	d.wantStart(o, 160*ms)
	first := o.At.Truncate(50 * ms)
	want := []bucket.Taken{
		{Until: first.Add(100 * ms), Tokens: 1.1}, {Until: first.Add(200 * ms), Tokens: 2.3},
	}
	loaded, _ := d.load()
	if got := loaded.Meters[1].Held; !reflect.DeepEqual(got, want) || !reflect.DeepEqual(loaded, o.Bucket) {
		d.t.Errorf("holds %+v, want %+v", got, want)
	}
	other := d
	other.i.Store = d.i.peer(d.t)
	late := ask(bucket.OpSettle, 0, 2)
	late.HoldEnd = o.HoldEnd()
	other.apply(late, ask(bucket.OpSettle, 0, 8)) // the provider has room for 10 - 1 - 1.4
	d.i.Advance(200 * ms)
	d.wantStart(d.one(allow(.4, 9.6)), 0)
	d.want(d.one(allow(0, .1)), bucket.StateRefused, 10*ms)
	if loaded, _ = d.load(); loaded.Meters[1].Held != nil {
		d.t.Errorf("holds that have ended are stored: %+v", loaded.Meters[1])
	}
}

// Leases of calls in flight are kept exactly, also for another process: renewed, ended once, and gone when they end.
func testInFlight(d driver) {
	d.limit = oneMeter(10, 10, 0)
	d.limit.Meters = append(d.limit.Meters, reservations.InFlight(3))
	lease := func(op bucket.Op, id int64, n ...float64) bucket.Request {
		return bucket.Request{Op: op, Tokens: n, Lease: id, For: 25 * time.Second}
	}
	all := d.apply(lease(bucket.OpStart, 1<<62, 1, 1), lease(bucket.OpStart, -7, 1, 2), start(1, 0))
	end := all[0].At.Add(25 * time.Second)
	want := bucket.Leases{{ID: 1 << 62, Until: end, Tokens: 1}, {ID: -7, Until: end, Tokens: 2}}
	loaded, _ := d.load()
	if got := loaded.Meters[1].Leased; !reflect.DeepEqual(got, want) || !reflect.DeepEqual(loaded, all[2].Bucket) {
		d.t.Errorf("leases %+v, want %+v", got, want)
	}
	other := d
	other.i.Store = d.i.peer(d.t)
	d.i.Advance(5 * time.Second)
	other.want(other.one(lease(bucket.OpStart, 3, 1, 1)), bucket.StateWaiting, 20*time.Second)
	other.want(other.one(lease(bucket.OpRenew, 1<<62)), bucket.StateSettled, 0)
	d.want(d.one(lease(bucket.OpRenew, 3)), bucket.StateRefused, 0)
	d.apply(lease(bucket.OpSettle, -7, 0, 0), lease(bucket.OpSettle, -7, 0, 0))
	other.wantStart(other.one(lease(bucket.OpStart, 3, 1, 2)), 0)
	d.want(d.one(lease(bucket.OpStart, 4, 1, 1)), bucket.StateWaiting, 25*time.Second)
	d.i.Advance(25 * time.Second)
	d.wantStart(d.one(lease(bucket.OpStart, 4, 1, 3)), 0)
	d.want(d.one(lease(bucket.OpRenew, 1<<62)), bucket.StateRefused, 0)
}

func testCancelled(d driver) {
	d.limit = oneMeter(10, 5, reservations.None)
	ctx, cancel := context.WithCancel(d.t.Context())
	cancel()
	_, err := bucket.Apply(ctx, d.i.Store, bucket.Rules(d.limit), "", []bucket.Request{start(5)})
	wantCancelled(d.t, err)
	wantCancelled(d.t, bucket.Unavailable(d.limit.Name, "", d.i.Store.Reset(ctx, d.limit.Name, "")))
	d.wantStart(d.one(start(5)), 0)
}

func wantCancelled(t *testing.T, err error) {
	t.Helper()
	var u *bucket.UnavailableError
	if !errors.Is(err, reservations.ErrUnavailable) || !errors.Is(err, context.Canceled) || !errors.As(err, &u) {
		t.Fatalf("with a cancelled context the error is %v", err)
	}
	if u.Applied == bucket.AppliedMaybe || u.Bucket != "limit" || errors.Is(err, bucket.ErrBucket) {
		t.Errorf("applied %q to bucket %q; nothing was sent for bucket limit: %v", u.Applied, u.Bucket, err)
	}
}
