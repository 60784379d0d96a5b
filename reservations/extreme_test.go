package reservations_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/test/seeded"
	"github.com/headway-go/headway/reservations"
)

// Whatever limit is valid, and however it changes, the bucket stays one: a balance that is no number any more would
// never heal.
func TestBucketStaysFinite(t *testing.T) {
	t.Parallel()
	lives := uint64(3000)
	if testing.Short() {
		lives = 300
	}
	for seed := range seeded.Range(t, lives) {
		r := rand.New(rand.NewPCG(seed, 1))
		l, now := extremeLimit(r), time.UnixMilli(1_800_000_000_000)
		var b bucket.Bucket
		for i := range 60 {
			now = now.Add(time.Duration(r.Int64N(int64(time.Hour))))
			if r.IntN(5) == 0 {
				l = extremeLimit(r)
			}
			q := extremeRequest(r, l)
			next, o := bucket.Step(b, bucket.Rules(l), now, q)
			if o.Wait() < 0 || o.Wait() > bucket.MaxWait || o.Hold < 0 || o.Hold > bucket.Hold {
				t.Fatalf("seed %d, step %d, %+v of %+v: %+v", seed, i, q, l, o)
			}
			for k, s := range next.Meters {
				if math.IsInf(s.Reserved, 0) || !(s.Reserved <= s.Started && s.Started <= s.Filling.Capacity) {
					t.Fatalf("seed %d, step %d, %+v of %+v: meter %d of\n%+v\nbecame %+v", seed, i, q, l, k, b, next)
				}
			}
			if at := next.Plan(now, []bucket.Ask{{Tokens: reservations.Tokens{"a": 1e15}}}, now)[0]; at.Before(now) {
				t.Fatalf("seed %d: planned at %v, now is %v", seed, at, now)
			}
			b = next
		}
	}
}

// extremeAmount is anything from 1e-15 to 1e15, by its magnitude. Many a limit of it is not valid.
func extremeAmount(r *rand.Rand) float64 { return math.Pow(10, 15*(2*r.Float64()-1)) }

// extremeLimit is a valid limit of any magnitude.
func extremeLimit(r *rand.Rand) reservations.Limit {
	for {
		l := reservations.Limit{Name: "x"}
		for _, name := range []string{"a", "b"}[:1+r.IntN(2)] {
			m := reservations.Meter{
				Name: name, Rate: extremeAmount(r), Period: time.Duration(1 + r.Int64N(int64(1000*time.Hour))),
				MaxReserved: 0,
			}
			if r.IntN(2) == 0 {
				m.Capacity = extremeAmount(r)
			}
			if r.IntN(3) == 0 {
				m.MaxReserved = extremeAmount(r)
			}
			switch r.IntN(4) {
			case 0:
				m.Kind, m.Period = reservations.KindWindow, m.Period.Truncate(time.Millisecond)+time.Millisecond
				m.Start = time.Duration(r.Int64()).Truncate(time.Millisecond)
			case 1:
				m.Headroom = m.Cap() * r.Float64()
			}
			l.Meters = append(l.Meters, m)
		}
		if r.IntN(3) == 0 {
			l.MaxWait = time.Duration(1 + r.Int64N(int64(1000*time.Hour)))
		}
		if l.Validate() == nil {
			return l
		}
	}
}

func extremeRequest(r *rand.Rand, l reservations.Limit) bucket.Request {
	ops := []bucket.Op{
		bucket.OpStart, bucket.OpStart, bucket.OpReserve, bucket.OpAllow, bucket.OpSettle,
		bucket.OpBlock, bucket.OpUnblock, bucket.OpSync, bucket.OpRelease, bucket.OpRefuse, bucket.OpAnswered,
	}
	q := bucket.Request{
		Op: ops[r.IntN(len(ops))], Promoted: r.IntN(2) == 0, Reserved: r.IntN(2) == 0,
		Urgent: r.IntN(2) == 0, Up: r.IntN(2) == 0,
		ID: r.Int64N(3), For: time.Duration(r.Int64N(int64(48 * time.Hour))),
	}
	for _, m := range l.Meters {
		n := min(extremeAmount(r), m.Rules().Largest())
		if q.Op == bucket.OpSettle && r.IntN(2) == 0 {
			n = -n
		}
		q.Tokens = append(q.Tokens, n)
	}
	return q
}
