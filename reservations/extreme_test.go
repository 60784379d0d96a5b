package reservations_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headway-go/headway/reservations"
)

// Whatever limit is valid, and however it is changed, the bucket stays one: a ledger or a clock that is no number any more would never heal.
func TestBucketStaysFinite(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 1))
		l, now := extremeLimit(r), time.UnixMilli(1_800_000_000_000)
		var b reservations.Bucket
		for i := range 60 {
			now = now.Add(time.Duration(r.Int64N(int64(time.Hour))).Truncate(time.Millisecond))
			if r.IntN(5) == 0 {
				l = extremeLimit(r)
			}
			q := extremeRequest(r, l)
			next, o := reservations.Step(b, l, now, q)
			if !isFinite(next) || o.Wait() < 0 || o.Wait() > reservations.MaxWait {
				t.Fatalf("seed %d, step %d, %+v of %+v:\n%+v\nbecame %+v\n%+v", seed, i, q, l, b, next, o)
			}
			b = next
		}
	}
}

func TestLimitTooSmallToCountWith(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{1e-300, 9e-16, math.NaN(), 1e16} {
		for _, m := range []reservations.Meter{{Name: "r", Rate: rate, Period: time.Minute}, {Name: "r", Rate: 1, Period: time.Minute, Capacity: rate}} {
			if err := (reservations.Limit{Name: "x", Meters: []reservations.Meter{m}}).Validate(); err == nil {
				t.Errorf("%+v is valid", m)
			}
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
			m := reservations.Meter{Name: name, Rate: math.Pow(10, -300*float64(r.IntN(2))) * extremeAmount(r), Period: time.Duration(1 + r.Int64N(int64(1000*time.Hour))), MaxReserved: reservations.Unlimited}
			if r.IntN(2) == 0 {
				m.Capacity = extremeAmount(r)
			}
			if r.IntN(3) == 0 {
				m.MaxReserved = extremeAmount(r)
			}
			if r.IntN(3) == 0 {
				m.Kind, m.Period = reservations.KindWindow, m.Period.Truncate(time.Millisecond)+time.Millisecond
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

func extremeRequest(r *rand.Rand, l reservations.Limit) reservations.Request {
	ops := []reservations.Op{reservations.OpBegin, reservations.OpBegin, reservations.OpReserve, reservations.OpSettle, reservations.OpBlock, reservations.OpSync, reservations.OpYield}
	states := []reservations.State{reservations.StateNew, reservations.StateTicket, reservations.StateAgain, reservations.StateReserved, reservations.StateLate}
	q := reservations.Request{Op: ops[r.IntN(len(ops))], State: states[r.IntN(len(states))]}
	for _, m := range l.Meters {
		n := min(extremeAmount(r), m.Largest())
		if q.Op == reservations.OpSettle && r.IntN(2) == 0 {
			n = -n
		}
		q.Tokens = append(q.Tokens, n)
	}
	if q.Op == reservations.OpBlock {
		q.For = time.Duration(r.Int64N(int64(48 * time.Hour)))
	}
	return q
}

func isFinite(b reservations.Bucket) bool {
	all := []float64{b.Shift, b.Speed, b.Carry, b.Blocked}
	for _, m := range b.Meters {
		all = append(append(all, m.Ledgers[:]...), m.Gap)
	}
	for _, x := range all {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return false
		}
	}
	return true
}
