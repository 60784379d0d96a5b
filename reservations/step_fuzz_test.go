package reservations_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/headway-go/headway/reservations"
)

// FuzzStep reads a limit and then requests from the bytes, eight for each request. Whatever they say, Step must not panic, and no
// balance may be above the capacity or above the ledger before it.
func FuzzStep(f *testing.F) {
	f.Add([]byte{1, 9, 9, 9, 0, 0, 10, 10, 0, 0, 0, 0, 1, 1, 200, 0, 0, 0, 3, 4, 100, 100, 0, 0})
	f.Add([]byte{0, 1, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 3, 0, 255, 0, 255, 255})
	f.Add([]byte{2, 200, 1, 7, 13, 100, 5, 0, 250, 2, 3, 4, 4, 2, 60, 255, 1, 3, 0, 1, 2, 3})
	f.Add([]byte("00000000000000\xd8")) // the clock runs back by minutes
	f.Fuzz(func(t *testing.T, data []byte) {
		next := func() float64 {
			if len(data) == 0 {
				return 0
			}
			x := data[0]
			data = data[1:]
			return float64(x)
		}
		var l reservations.Limit
		l.Name = "fuzz"
		for k := range 1 + int(next())%3 {
			m := perSecond(fmt.Sprintf("m%d", k), math.Exp(next()/8-16), math.Exp(next()/8-16), next()*next())
			if m.MaxReserved == 255*255 {
				m.MaxReserved = reservations.Unlimited
			}
			if int(m.MaxReserved)%3 == 1 {
				m.Kind, m.Start = reservations.KindWindow, time.Duration(m.Rate)*time.Millisecond
			}
			l.Meters = append(l.Meters, m)
		}
		if err := l.Validate(); err != nil {
			t.Fatal(err)
		}
		ops := []reservations.Op{begin, reserve, check, settle, release, "unknown", take, block, reservations.OpSync}
		states := []reservations.State{"", fresh, ticket, again, reserved, late, started, settled, refused}
		var b reservations.Bucket
		for now := 1e6; len(data) > 0; {
			r := reservations.Request{Op: ops[int(next())%len(ops)], State: states[int(next())%len(states)]}
			now += (next() - 64) * math.Exp(next()/16-10)
			for range l.Meters {
				n := next() * math.Exp(next()/4-32)
				if r.Op == settle {
					n -= next()
				}
				r.Tokens = append(r.Tokens, n)
				r.For = time.Duration((n - 1) * float64(time.Minute))
			}
			shift := b.Shift
			if back := b.At.Sub(clock(now)); !b.At.IsZero() && back > time.Minute {
				shift += back.Seconds() // the clock of the line follows
			}
			var o reservations.Outcome
			b, o = reservations.Step(b, l, clock(now), r)
			wellFormed(t, l, b)
			if r.Op != settle && r.Op != block && r.Op != reservations.OpSync && b.Shift != shift {
				t.Fatalf("%s moved the line to %v", r.Op, b.Shift)
			}
			if o.Started() && o.Hold.Seconds() < b.Blocked-1e-8 {
				t.Fatalf("%+v starts during a block of %v s", o, b.Blocked)
			}
			if o.Hold < 0 || o.Hold > reservations.Hold || o.At.IsZero() {
				t.Fatalf("outcome %+v of %+v", o, r)
			}
		}
	})
}
