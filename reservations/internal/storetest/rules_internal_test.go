package storetest

import (
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
)

// The rules as a store's callers see them. One store is enough: that each store decides as the rules do is what the
// model compares.
func TestRules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		test func(d driver)
	}{
		{"requests fold in order", testFold},
		{"meters", testMeters},
		{"dry changes nothing", testDry},
		{"clock runs back", testClockBack},
		{"limit changes", testChange},
		{"block", testBlock},
		{"sync", testSync},
		{"adaptive", testAdaptive},
		{"holds", testHolds},
		{"calls in flight", testInFlight},
		{"concurrent through a limiter", testConcurrentLimiter},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			clock := NewClock()
			c.test(driver{t: t, i: Instance{Store: memstore.New(clock.Now), Advance: clock.Advance}})
		})
	}
}

func dry(r bucket.Request) bucket.Request {
	r.Dry = true
	return r
}

// promoted is the start of a task that waited with a reservation.
func promoted(n ...float64) bucket.Request {
	return bucket.Request{Op: bucket.OpStart, Tokens: n, Promoted: true, Reserved: true}
}

// Requests of one call are folded in order, at one moment.
func testFold(d driver) {
	d.limit = oneMeter(10, 5, reservations.Unlimited)
	got := d.apply(start(5), start(4), ask(bucket.OpSettle, 2), promoted(2), start(1))
	d.wantStart(got[0], 0)
	d.want(got[1], reservations.StateReserved, 400*ms)
	d.want(got[2], reservations.StateSettled, 0)
	d.wantStart(got[3], 0)
	d.want(got[4], reservations.StateReserved, 300*ms)
	for k, o := range got {
		if o.Bucket.Version != int64(k+1) || o.Bucket.Generation != got[0].Bucket.Generation || !o.At.Equal(got[0].At) {
			d.t.Errorf("outcome %d is of version %d, generation %d, at %v", k, o.Bucket.Version, o.Bucket.Generation, o.At)
		}
	}
	d.i.Advance(300 * ms)
	d.wantStart(d.one(promoted(1)), 0)
	d.i.Advance(time.Hour)
	d.wantStart(d.one(start(5)), 0) // never more than the capacity
	d.want(d.one(start(4)), reservations.StateReserved, 400*ms)
}

// Limits with several meters, windows and headroom: a store keeps all that a meter has.
func testMeters(d driver) {
	d.limit = reservations.Limit{Name: "limit", Meters: []reservations.Meter{
		{Name: "requests", Rate: 10, Period: time.Second, Capacity: 10, MaxReserved: reservations.Unlimited, Headroom: 4},
		{Name: "daily", Kind: reservations.KindWindow, Rate: 7, Period: time.Minute, Start: 20 * time.Second, MaxReserved: 3},
	}}
	d.wantStart(d.one(start(6, 1)), 0)
	d.want(d.one(allow(1, 1)), reservations.StateRefused, 100*ms)
	urgent := start(4, 4)
	urgent.Urgent = true
	d.wantStart(d.one(urgent), 0)
	d.want(d.one(start(0, 3)), reservations.StateReserved, 20*time.Second) // a Clock stands at a whole minute
	d.want(d.one(start(0, 3)), reservations.StateWaiting, 20*time.Second)  // max_reserved
	d.i.Advance(20*time.Second - time.Microsecond)
	d.want(d.one(allow(0, 3)), reservations.StateRefused, time.Microsecond)
	d.i.Advance(time.Microsecond)
	d.wantStart(d.one(promoted(0, 3)), 0)
}

// A dry request answers and leaves nothing behind.
func testDry(d driver) {
	d.limit = oneMeter(10, 5, reservations.Unlimited)
	d.wantStart(d.one(dry(start(5))), 0)
	if b, _ := d.load(); !b.At.IsZero() {
		d.t.Errorf("a dry request left %+v", b)
	}
	d.apply(start(5))
	before, _ := d.load()
	d.i.Advance(100 * ms)
	for range 2 {
		d.wantStart(d.one(dry(start(2))), 100*ms)
		d.want(d.one(dry(start(5))), reservations.StateReserved, 400*ms)
		d.want(d.one(dry(allow(2))), reservations.StateRefused, 100*ms)
		d.apply(dry(ask(bucket.OpSettle, 5)), dry(block(time.Hour)))
	}
	if after, _ := d.load(); !reflect.DeepEqual(before, after) {
		d.t.Errorf("dry requests made\n%+v of\n%+v", after, before)
	}
}

// A clock that runs back a little changes nothing. One that runs back far is followed, and nothing comes back for that
// step.
func testClockBack(d driver) {
	d.limit = oneMeter(10, 5, reservations.Unlimited)
	first := d.one(start(5))
	d.i.Advance(-30 * time.Second)
	back := d.one(start(3))
	d.want(back, reservations.StateReserved, 300*ms)
	if !back.At.Equal(first.At) {
		d.t.Errorf("decided at %v, want %v", back.At, first.At)
	}
	d.i.Advance(30*time.Second + 300*ms)
	d.wantStart(d.one(promoted(3)), 0)
	d.i.Advance(-time.Hour)
	far := d.one(start(3))
	d.want(far, reservations.StateReserved, 300*ms)
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
		m := oneMeter(rate, 10, reservations.Unlimited).Meters[0]
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
	d.want(d.one(dry(start(0, 10))), reservations.StateReserved, 2*time.Second)
	d.limit.Meters = []reservations.Meter{meter("b", 1)}
	d.i.Advance(4 * time.Second)
	d.want(d.one(allow(5)), reservations.StateRefused, time.Second)
}

// Nothing starts during a block, whatever is given back.
func testBlock(d driver) {
	d.limit = oneMeter(10, 5, reservations.Unlimited)
	d.want(d.one(block(2*time.Second)), reservations.StateSettled, 2*time.Second)
	d.want(d.one(block(time.Second)), reservations.StateSettled, 2*time.Second) // inside
	d.apply(ask(bucket.OpSettle, 100))
	d.i.Advance(time.Second)
	d.want(d.one(allow(0)), reservations.StateRefused, time.Second)
	d.want(d.one(bucket.Request{Op: bucket.OpUnblock}), reservations.StateSettled, 0)
	d.wantStart(d.one(allow(0)), 0)
	d.want(d.one(block(time.Hour)), reservations.StateSettled, reservations.MaxBlockDefault)
}

// A provider's balance corrects downwards, and upwards where that is asked for.
func testSync(d driver) {
	d.limit = oneMeter(10, 10, reservations.Unlimited)
	sync := bucket.Request{Op: bucket.OpSync, Tokens: []float64{4}, For: 100 * ms}
	d.apply(sync)
	d.wantStart(d.one(allow(5)), 0)
	d.apply(sync)
	d.want(d.one(allow(1)), reservations.StateRefused, 100*ms)
	sync.Up = true
	d.apply(sync)
	d.wantStart(d.one(allow(5)), 0)
}

// A store keeps the rate that an adaptive meter has found, also for another process, and for a while after the bucket
// is full.
func testAdaptive(d driver) {
	d.limit = oneMeter(1, 10, reservations.Unlimited)
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
	d.limit = oneMeter(10, 10, reservations.Unlimited)
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
	d.want(d.one(allow(0, .1)), reservations.StateRefused, 10*ms)
	if loaded, _ = d.load(); loaded.Meters[1].Held != nil {
		d.t.Errorf("holds that have ended are stored: %+v", loaded.Meters[1])
	}
}

// Leases of calls in flight are kept exactly, also for another process: renewed, ended once, and gone when they end.
func testInFlight(d driver) {
	d.limit = oneMeter(10, 10, reservations.Unlimited)
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
	other.want(other.one(lease(bucket.OpStart, 3, 1, 1)), reservations.StateWaiting, 20*time.Second)
	other.want(other.one(lease(bucket.OpRenew, 1<<62)), reservations.StateSettled, 0)
	d.want(d.one(lease(bucket.OpRenew, 3)), reservations.StateRefused, 0)
	d.apply(lease(bucket.OpSettle, -7, 0, 0), lease(bucket.OpSettle, -7, 0, 0))
	other.wantStart(other.one(lease(bucket.OpStart, 3, 1, 2)), 0)
	d.want(d.one(lease(bucket.OpStart, 4, 1, 1)), reservations.StateWaiting, 25*time.Second)
	d.i.Advance(25 * time.Second)
	d.wantStart(d.one(lease(bucket.OpStart, 4, 1, 3)), 0)
	d.want(d.one(lease(bucket.OpRenew, 1<<62)), reservations.StateRefused, 0)
}

// A limiter shares calls between callers.
func testConcurrentLimiter(d driver) {
	limit := oneMeter(10, 100, reservations.Unlimited)
	limiter, err := reservations.New(d.i.Store, []reservations.Limit{limit}, reservations.Config{CallTimeout: time.Minute})
	if err != nil {
		d.t.Fatal(err)
	}
	var started atomic.Int64
	eachOf(callers, func(int) {
		for range 8 {
			o, err := limiter.Start(d.t.Context(), reservations.Charge{
				Limit: limit.Name, Tokens: reservations.Tokens{"m": 1},
			})
			if err != nil {
				d.t.Error(err)
				return
			}
			if o.Started() {
				started.Add(1)
			}
		}
	})
	if started.Load() != 102 {
		d.t.Errorf("%d callers through a limiter: %d started, want exactly 102", callers, started.Load())
	}
}
