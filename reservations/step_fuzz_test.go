package reservations_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

// FuzzStep reads a limit and then requests from the bytes. Whatever they say, Step must not panic, its buckets are well
// formed, and nothing starts during a block. The judge, which knows no balances, finds nothing wrong with the starts.
func FuzzStep(f *testing.F) {
	f.Add([]byte{1, 9, 9, 9, 0, 0, 10, 10, 0, 0, 0, 0, 1, 1, 200, 0, 0, 0, 3, 4, 100, 100, 0, 0})
	f.Add([]byte{0, 1, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 3, 0, 255, 0, 255, 255})
	f.Add([]byte{2, 200, 1, 7, 13, 100, 5, 0, 250, 2, 3, 4, 4, 2, 60, 255, 1, 3, 0, 1, 2, 3})
	f.Add([]byte("00000000000000\xd8")) // the clock runs back by minutes
	f.Fuzz(func(t *testing.T, data []byte) {
		data = data[:min(len(data), 1000)]
		next := func() float64 {
			if len(data) == 0 {
				return 0
			}
			x := data[0]
			data = data[1:]
			return float64(x)
		}
		l := limitOf()
		var judges []*judge
		for k := range 1 + int(next())%3 {
			m := perSecond(fmt.Sprintf("m%d", k), math.Exp(next()/16-6), math.Exp(next()/16-6), next()*next())
			switch int(next()) % 3 {
			case 1:
				m.Kind, m.Start = reservations.KindWindow, time.Duration(m.Rate)*time.Millisecond
			case 2:
				m.Headroom = m.Cap() / 3
			}
			l.Meters = append(l.Meters, m)
			judges = append(judges, &judge{force: bucket.Rules(l).Meters[k:]})
		}
		if err := l.Validate(); err != nil {
			t.Fatal(err)
		}
		ops := []bucket.Op{
			bucket.OpStart, bucket.OpStart, bucket.OpReserve, bucket.OpAllow, bucket.OpSettle,
			bucket.OpRelease, bucket.OpBlock, bucket.OpSync, bucket.OpRefresh, "unknown",
			bucket.OpRefuse, bucket.OpAnswered,
		}
		var b bucket.Bucket
		passed, blocked := 0., 0.
		for now := 1e6; len(data) > 0; {
			flags := int(next())
			r := bucket.Request{
				Op: ops[int(next())%len(ops)], Promoted: flags&1 > 0, Reserved: flags&2 > 0, Urgent: flags&4 > 0, Dry: flags&8 > 0,
				For: time.Duration((next() - 1) * float64(time.Second)),
			}
			d := time.Duration((next() - 64) * math.Exp(next()/16-10) * float64(time.Second))
			if d > 0 {
				for _, j := range judges {
					j.pass(clock(now), d)
				}
				passed += d.Seconds()
			}
			now += d.Seconds()
			for k, m := range l.Meters {
				n := min(next()*math.Exp(next()/16-8), m.Rules().Largest())
				if r.Op == bucket.OpSettle {
					if n -= next(); !r.Dry {
						judges[k].corrected(passed, -n)
					}
				}
				r.Tokens = append(r.Tokens, n)
			}
			var o bucket.Answer
			b, o = bucket.Step(b, bucket.Rules(l), clock(now), r)
			wellFormed(t, bucket.Rules(l), b)
			if o.Hold < 0 || o.Hold > bucket.Hold || o.At.IsZero() {
				t.Fatalf("outcome %+v of %+v", o, r)
			}
			if r.Op == bucket.OpBlock && !r.Dry {
				blocked = max(blocked, passed+r.For.Seconds())
			}
			if !o.Started() || r.Dry {
				continue
			}
			if passed+o.Hold.Seconds() < blocked-1e-6 {
				t.Fatalf("%+v starts at %v, blocked until %v", o, passed, blocked)
			}
			for k, j := range judges {
				if fault := j.begins(passed, o.At, o.Hold, r.Tokens[k], l.Meters[k].Cap()); fault != "" {
					t.Fatalf("%s: %s", l.Meters[k].Name, fault)
				}
			}
		}
	})
}
