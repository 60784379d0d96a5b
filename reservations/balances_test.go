package reservations_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

// bucketOf is a bucket of 10 tokens a second at second 100 with these balances in its only meter.
func bucketOf(started, reserved float64) bucket.Bucket {
	return bucket.Bucket{At: clock(100), Generation: 7, Version: 41, Meters: []bucket.Balance{
		{Name: "tokens", Started: started, Reserved: reserved, Filling: bucket.Filling{Rate: 10, Capacity: 10}},
	}}
}

// What each request does to the balances started and reserved of 10 tokens a second, and to the version.
func TestStepBalances(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		name          string
		limit         reservations.Limit
		r             bucket.Request
		before, after [2]float64
		changed       bool
	}{
		{"start charges both", ten(inf), start(3), [2]float64{4, 4}, [2]float64{1, 1}, true},
		{"start of a holder charges started", ten(inf), holder(3), [2]float64{4, -6}, [2]float64{1, -6}, true},
		{"start of a holder whose promise is lost", ten(inf), holder(3), [2]float64{4, 4}, [2]float64{1, 1}, true},
		{"start without a promise charges both", ten(inf), promoted(3), [2]float64{4, -6}, [2]float64{1, -9}, true},
		{"start that holds", ten(inf), promoted(3), [2]float64{1, -6}, [2]float64{-2, -9}, true},
		{"start of nothing", ten(inf), start(0), [2]float64{4, 4}, [2]float64{4, 4}, false},
		{"start above the capacity", ten(inf), start(25), [2]float64{10, 10}, [2]float64{-15, -15}, true},
		{"start above the capacity that holds", ten(inf), start(25), [2]float64{8, 8}, [2]float64{-17, -17}, true},
		{"too early", ten(inf), promoted(9), [2]float64{4, 2}, [2]float64{4, 2}, false},
		{"reserve", ten(inf), reserve(3), [2]float64{4, 1}, [2]float64{4, -2}, true},
		{"new without room reserves", ten(inf), start(9), [2]float64{4, 1}, [2]float64{4, -8}, true},
		{"new within max_reserved", ten(8), start(9), [2]float64{4, 1}, [2]float64{4, -8}, true},
		{"new beyond max_reserved", ten(7), start(9), [2]float64{4, 1}, [2]float64{4, 1}, false},
		{"reserve above the capacity waits until full", ten(inf), reserve(25), [2]float64{4, 4}, [2]float64{4, -21}, true},
		{"allow", ten(inf), allow(3), [2]float64{4, 4}, [2]float64{1, 1}, true},
		{"allow refused", ten(inf), allow(5), [2]float64{4, 4}, [2]float64{4, 4}, false},
		{"urgent start", withHeadroom(ten(inf), 3), urgent(3), [2]float64{4, -9}, [2]float64{1, -12}, true},
		{"settle gives", ten(inf), settle(3), [2]float64{4, -6}, [2]float64{7, -3}, true},
		{"settle takes", ten(inf), settle(-6), [2]float64{4, 4}, [2]float64{-2, -2}, true},
		{"settle gives up to the capacity", ten(inf), settle(3), [2]float64{9, 8}, [2]float64{10, 10}, true},
		{"settle of a full bucket", ten(inf), settle(3), [2]float64{10, 10}, [2]float64{10, 10}, false},
		{"settle of nothing", ten(inf), settle(0), [2]float64{4, 4}, [2]float64{4, 4}, false},
		{"settle that keeps the reservation", ten(inf), bucket.Request{
			Op: bucket.OpSettle, Tokens: []float64{3}, Reserved: true,
		}, [2]float64{4, -6}, [2]float64{7, -6}, true},
		{"release", ten(inf), release(3), [2]float64{4, -6}, [2]float64{4, -3}, true},
		{"release never rises above started", ten(inf), release(30), [2]float64{4, -6}, [2]float64{4, 4}, true},
		{"release of nothing promised", ten(inf), release(30), [2]float64{4, 4}, [2]float64{4, 4}, false},
		{"block", ten(inf), block(2), [2]float64{4, 2}, [2]float64{0, 0}, true},
		{"block with promises", ten(inf), block(2), [2]float64{4, -6}, [2]float64{0, -6}, true},
		{"block of a debt", ten(inf), block(2), [2]float64{-4, -6}, [2]float64{-4, -6}, true},
		{"no block", ten(inf), block(0), [2]float64{4, -6}, [2]float64{4, -6}, false},
		{"unblock of no block", ten(inf), unblock(), [2]float64{4, -6}, [2]float64{4, -6}, false},
		{"sync lowers both", ten(inf), synced(0, 1), [2]float64{4, -6}, [2]float64{1, -9}, true},
		{"sync of more", ten(inf), synced(0, 9), [2]float64{4, -6}, [2]float64{4, -6}, false},
		{"sync up", ten(inf), up(synced(0, 9)), [2]float64{4, -6}, [2]float64{9, -1}, true},
		{"sync up above the capacity", ten(inf), up(synced(0, 99)), [2]float64{4, 4}, [2]float64{10, 10}, true},
		{"sync of old news", ten(inf), synced(.2, 1), [2]float64{4, 4}, [2]float64{3, 3}, true},
		{"sync of what is not known", ten(inf), up(synced(0, -1)), [2]float64{4, 4}, [2]float64{4, 4}, false},
		{"refresh", ten(inf), refresh(), [2]float64{4, -6}, [2]float64{4, -6}, false},
		{
			"an unknown request", ten(inf),
			bucket.Request{Op: "dance", Tokens: []float64{3}},
			[2]float64{4, 2},
			[2]float64{4, 2},
			false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			before := bucketOf(c.before[0], c.before[1])
			version := before.Version
			if c.changed {
				version++
			}
			got, o := bucket.Step(before, bucket.Rules(c.limit), clock(100), c.r)
			if near(t, balances(got), c.after[:]...); got.Version != version || o.Bucket.Version != version {
				t.Errorf("version %d, want %d", got.Version, version)
			}
			near(t, balances(before), c.before[:]...) // Step leaves it as it was
			again, dried := bucket.Step(before, bucket.Rules(c.limit), clock(100), dry(c.r))
			near(t, balances(again), c.before[:]...)
			if o.Bucket, dried.Bucket = (bucket.Bucket{}), (bucket.Bucket{}); !cmp.Equal(o, dried) ||
				again.Version != 41 {
				t.Errorf("dry: version %d, answer %+v, want %+v", again.Version, dried, o)
			}
		})
	}
}

// A block does not count what comes back meanwhile, and an unblock gives nothing back: a debt is as it was.
func TestUnblockMintsNothing(t *testing.T) {
	t.Parallel()
	for _, l := range []reservations.Limit{ten(inf), limitOf(window("tokens", 10, 10, 60, inf))} {
		b := life(t, l, []moment{{0, start(50), started, 0}})
		debt := balances(b)
		for range 10 {
			b, _ = bucket.Step(b, bucket.Rules(l), clock(0), block(300))
			b, _ = bucket.Step(b, bucket.Rules(l), clock(.1), unblock())
		}
		b, _ = bucket.Step(b, bucket.Rules(l), clock(.1), refresh())
		for k, x := range balances(b) {
			if x > debt[k]+1e-6 {
				t.Errorf("%s: a debt of %v became %v", l.Meters[0].Kind, debt, balances(b))
			}
		}
	}
}

// Windows that end during a block fill as ever.
func TestStepBlockOfAWindow(t *testing.T) {
	t.Parallel()
	l := limitOf(window("w", 10, 0, 60, inf))
	b := life(t, l, []moment{
		{50, start(4), started, 0},
		{50, block(20), settled, 20},
		{50, start(6), reserved, 20},
		{65, holder(6), waiting, 5},
		{70, holder(6), started, 0},
		{70, start(4), started, 0},
		{70, start(1), reserved, 50},
	})
	near(t, balances(b), 0, -1)
}

// A settlement whose ID the bucket remembers changes nothing; where the bucket may have forgotten it, only what takes
// counts.
func TestStepSettleOnce(t *testing.T) {
	t.Parallel()
	l := limitOf(perSecond("a", 1e-9, 100, inf), perSecond("b", 1e-9, 100, inf))
	ask := func(b *bucket.Bucket, at float64, r bucket.Request) {
		*b, _ = bucket.Step(*b, bucket.Rules(l), clock(at), r)
	}
	var b bucket.Bucket
	ask(&b, 0, start(50, 50))
	for i := range 3 {
		ask(&b, 1, settleID(1, float64(i), 10, -10))
		near(t, balances(b), 60, 60, 40, 40)
		if b.Version != 2 {
			t.Errorf("version %d", b.Version)
		}
	}
	for id := range 63 {
		ask(&b, 2, settleID(int64(id+2), 0, 0, 0))
	}
	ask(&b, 3, settleID(1, 2, 10, -10)) // is still the oldest
	near(t, balances(b), 60, 60, 40, 40)
	ask(&b, 3, settleID(100, 0, 0, 0))
	ask(&b, 4, settleID(1, 3, 10, -10)) // first sent at second 1
	near(t, balances(b), 60, 60, 30, 30)
	ask(&b, 5, settleID(101, .5, 10, -10)) // first sent at second 4.5, after the last was forgotten
	near(t, balances(b), 70, 70, 20, 20)
	ask(&b, 5, settleID(102, 0, 10, -10))
	near(t, balances(b), 80, 80, 10, 10)
	if len(b.Settled) != 64 {
		t.Errorf("%d IDs are kept", len(b.Settled))
	}
}

// A bucket that was reset, or forgotten while it was full, has forgotten its settlements too.
func TestStepSettleAfterTheBucketWasForgotten(t *testing.T) {
	t.Parallel()
	l := limitOf(perSecond("a", 1e-9, 100, inf), perSecond("b", 1e-9, 100, inf))
	b, _ := bucket.Step(bucket.Bucket{}, bucket.Rules(l), clock(10), start(50, 50))
	b, _ = bucket.Step(b, bucket.Rules(l), clock(11), settleID(1, 5, 10, -10))
	near(t, balances(b), 50, 50, 40, 40)
	b, _ = bucket.Step(b, bucket.Rules(l), clock(12), settleID(2, 1, 10, -10))
	near(t, balances(b), 60, 60, 30, 30)
}

func TestBucketFullAt(t *testing.T) {
	t.Parallel()
	blocked := func(b bucket.Bucket, until float64) bucket.Bucket {
		b.Blocked = clock(until)
		return b
	}
	for _, c := range []struct {
		bucket bucket.Bucket
		want   time.Time
	}{
		{bucket.Bucket{}, time.Time{}},
		{bucketOf(10, 10), clock(100)},
		{bucketOf(9, 9), clock(100.1)},
		{bucketOf(9, -50), clock(106)},
		{blocked(bucketOf(10, 10), 107), clock(107)},
		{blocked(bucketOf(0, -50), 107), clock(113)},
		{bucketOf(0, -1e300), clock(100).Add(bucket.MaxWait)},
	} {
		if got := c.bucket.FullAt(); !got.Equal(c.want) {
			t.Errorf("%v is full at %v, want %v", c.bucket, got, c.want)
		}
	}
}

func TestOutcomeWait(t *testing.T) {
	t.Parallel()
	o := reservations.Outcome{State: reserved, At: clock(10), RetryAt: clock(15)}
	if o.Wait() != 5*time.Second {
		t.Errorf("waits %v", o.Wait())
	}
	o.State, o.At = waiting, clock(20)
	if o.Wait() != 0 {
		t.Errorf("overdue waits %v", o.Wait())
	}
}

func TestBucketNewer(t *testing.T) {
	t.Parallel()
	old := bucketOf(1, 1)
	later, next := old, old
	later.Version, next.Generation, next.Version = 42, 8, 1
	if old.Newer(old) || !later.Newer(old) || old.Newer(later) || !next.Newer(later) || later.Newer(next) {
		t.Error("a later generation is newer, and in one generation the later version")
	}
}

// The bucket's JSON is what other processes plan with.
func TestBucketJSON(t *testing.T) {
	t.Parallel()
	l := withHeadroom(limitOf(perSecond("a", 10, 10, inf), window("b", 5, 7, 60, inf)), 2)
	l.Meters[1].Start = 300 * time.Millisecond
	b := life(t, l, []moment{{1, start(3, 1), started, 0}, {1, block(5), settled, 5}})
	var got bucket.Bucket
	viaJSON(t, b, &got)
	if diff := cmp.Diff(b, got, cmpopts.IgnoreFields(bucket.Bucket{}, "Settled", "Forgot"),
		cmpopts.IgnoreFields(bucket.Balance{}, "Peaks")); diff != "" {
		t.Error(diff)
	}
	if math.IsNaN(got.Meters[0].Started) || !got.Follows(bucket.Rules(l)) {
		t.Errorf("%+v", got)
	}
}
