package reservations_test

import (
	"math"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

const (
	started  = "started"
	reserved = "reserved"
	waiting  = "waiting"
	refused  = "refused"
	settled  = "settled"
)

// virtualStart is a midnight in UTC.
var virtualStart = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// clock is that many seconds after virtualStart.
func clock(seconds float64) time.Time {
	return virtualStart.Add(time.Duration(math.Round(seconds * float64(time.Second))))
}

func perSecond(name string, rate, capacity, maxReserved float64) reservations.Meter {
	return reservations.Meter{
		Name: name, Rate: rate, Period: time.Second, Capacity: capacity, MaxReserved: reservable(maxReserved),
	}
}

// window is rate tokens in each period of that many seconds, from virtualStart on.
func window(name string, rate, capacity, seconds, maxReserved float64) reservations.Meter {
	m := perSecond(name, rate, capacity, maxReserved)
	m.Kind, m.Period = reservations.KindWindow, time.Duration(seconds)*time.Second
	return m
}

func limitOf(meters ...reservations.Meter) reservations.Limit {
	return reservations.Limit{Name: "fleet", Meters: meters}
}

// reservable is a MaxReserved of that many tokens.
func reservable(tokens float64) float64 {
	switch tokens {
	case 0:
		return reservations.None
	case inf:
		return 0
	}
	return tokens
}

// ten is 10 tokens a second with a capacity of 10.
func ten(maxReserved float64) reservations.Limit {
	return limitOf(perSecond("tokens", 10, 10, maxReserved))
}

var inf = math.Inf(1)

// Requests of the tables.

func start(n ...float64) bucket.Request {
	return bucket.Request{Op: bucket.OpStart, Tokens: n}
}

func urgent(n ...float64) bucket.Request {
	return bucket.Request{Op: bucket.OpStart, Tokens: n, Urgent: true}
}

// promoted is the start of a task that waited without a promise.
func promoted(n ...float64) bucket.Request {
	return bucket.Request{Op: bucket.OpStart, Tokens: n, Promoted: true}
}

// holder is the start of a task that waited with a promise.
func holder(n ...float64) bucket.Request {
	return bucket.Request{Op: bucket.OpStart, Tokens: n, Promoted: true, Reserved: true}
}

func reserve(n ...float64) bucket.Request {
	return bucket.Request{Op: bucket.OpReserve, Tokens: n}
}

func allow(n ...float64) bucket.Request {
	return bucket.Request{Op: bucket.OpAllow, Tokens: n}
}

func release(n ...float64) bucket.Request {
	return bucket.Request{Op: bucket.OpRelease, Tokens: n}
}

func settle(n ...float64) bucket.Request {
	return bucket.Request{Op: bucket.OpSettle, Tokens: n}
}

// settleID is a settlement with an ID that was first sent ago seconds before.
func settleID(id int64, ago float64, n ...float64) bucket.Request {
	return bucket.Request{
		Op: bucket.OpSettle, Tokens: n, ID: id,
		For: time.Duration(ago * float64(time.Second)),
	}
}

func block(seconds float64) bucket.Request {
	return bucket.Request{Op: bucket.OpBlock, For: time.Duration(seconds * float64(time.Second))}
}

func unblock() bucket.Request { return bucket.Request{Op: bucket.OpUnblock} }
func refresh() bucket.Request { return bucket.Request{Op: bucket.OpRefresh} }

// synced is what was left ago seconds before; negative is not known.
func synced(ago float64, left ...float64) bucket.Request {
	return bucket.Request{Op: bucket.OpSync, Tokens: left, For: time.Duration(ago * float64(time.Second))}
}

func up(r bucket.Request) bucket.Request {
	r.Up = true
	return r
}

func dry(r bucket.Request) bucket.Request {
	r.Dry = true
	return r
}

// moment is a line of a table: at a second of the virtual clock the bucket gets a request. The answer is a state and
// the seconds to wait: the hold of a task that starts, or what is left of a block.
type moment struct {
	at   float64
	r    bucket.Request
	want bucket.State
	wait float64
}

// life sends all requests to one bucket. The answers have to be exact to a few nanoseconds.
func life(t *testing.T, l reservations.Limit, moments []moment) bucket.Bucket {
	t.Helper()
	if err := l.Validate(); err != nil {
		t.Fatal(err)
	}
	var b bucket.Bucket
	for i, m := range moments {
		var o bucket.Answer
		b, o = bucket.Step(b, bucket.Rules(l), clock(m.at), m.r)
		if wait := (o.Hold + o.Wait()).Seconds(); o.State != m.want || math.Abs(wait-m.wait) > 1e-8 {
			t.Fatalf("moment %d: %s after %v s, want %s after %v s", i, o.State, wait, m.want, m.wait)
		}
		if o.At != b.At || o.Bucket.Version != b.Version || b.Generation != clock(moments[0].at).UnixMilli() {
			t.Fatalf("moment %d: %+v is not of the bucket %+v", i, o, b)
		}
		if o.Hold != 0 && !o.Started() || o.Started() && !o.RetryAt.IsZero() || o.Hold > bucket.Hold {
			t.Fatalf("moment %d: hold and time must go with the state: %+v", i, o)
		}
	}
	return b
}

// balances are the balances of all meters: started, reserved, started, reserved.
func balances(b bucket.Bucket) (all []float64) {
	for _, m := range b.Meters {
		all = append(all, m.Started, m.Reserved)
	}
	return all
}
