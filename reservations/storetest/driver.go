package storetest

import (
	"testing"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

const (
	ms         = time.Millisecond
	noMoreThan = 1e-6 // tokens that rounding may make of a balance
)

func oneMeter(rate, capacity, maxReserved float64) reservations.Limit {
	return reservations.Limit{Name: "limit", Meters: []reservations.Meter{
		{Name: "m", Rate: rate, Period: time.Second, Capacity: capacity, MaxReserved: maxReserved},
	}}
}

func start(n ...float64) bucket.Request { return ask(bucket.OpStart, n...) }

func allow(n ...float64) bucket.Request { return ask(bucket.OpAllow, n...) }

// promoted is the start of a task that waited with a reservation.
func promoted(n ...float64) bucket.Request {
	return bucket.Request{Op: bucket.OpStart, Tokens: n, Promoted: true, Reserved: true}
}

func ask(op bucket.Op, n ...float64) bucket.Request {
	return bucket.Request{Op: op, Tokens: n}
}

func dry(r bucket.Request) bucket.Request {
	r.Dry = true
	return r
}

func block(d time.Duration) bucket.Request {
	return bucket.Request{Op: bucket.OpBlock, For: d}
}

// driver asks one bucket of an instance.
type driver struct {
	t     *testing.T
	i     Instance
	limit reservations.Limit
	key   string
}

func (d driver) apply(requests ...bucket.Request) []bucket.Answer {
	d.t.Helper()
	var outcomes []bucket.Answer
	err := again(func() (err error) {
		outcomes, err = bucket.Apply(d.t.Context(), d.i.Store, bucket.Rules(d.limit), d.key, requests)
		return err
	})
	if err != nil {
		d.t.Fatalf("apply %d requests: %v", len(requests), err)
	}
	if len(outcomes) != len(requests) {
		d.t.Fatalf("%d requests brought %d outcomes", len(requests), len(outcomes))
	}
	return outcomes
}

func (d driver) one(r bucket.Request) bucket.Answer {
	d.t.Helper()
	return d.apply(r)[0]
}

func (d driver) load() (bucket.Bucket, time.Time) {
	d.t.Helper()
	b, now, err := bucket.Read(d.t.Context(), d.i.Store, d.limit.Name, d.key)
	if err != nil {
		d.t.Fatalf("load: %v", err)
	}
	return b, now
}

func (d driver) reset() {
	d.t.Helper()
	if err := d.i.Store.Reset(d.t.Context(), d.limit.Name, d.key); err != nil {
		d.t.Fatalf("reset: %v", err)
	}
}

// wantStart expects o to start after hold.
func (d driver) wantStart(o bucket.Answer, hold time.Duration) {
	d.t.Helper()
	if !o.Started() || o.Hold != hold {
		d.t.Fatalf("got %s, hold %v, wait %v; want a start after %v", o.State, o.Hold, o.Wait(), hold)
	}
}

// want expects state s and a wait.
func (d driver) want(o bucket.Answer, s bucket.State, wait time.Duration) {
	d.t.Helper()
	if o.State != s || o.Wait() != wait {
		d.t.Fatalf("got %s, wait %v, hold %v; want %s, wait %v", o.State, o.Wait(), o.Hold, s, wait)
	}
}
