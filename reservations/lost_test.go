package reservations_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/test/seeded"
	"github.com/headway-go/headway/reservations"
)

// A bucket that its store has lost, or of which it has an older state, counts as empty at that moment.
func TestLostBucket(t *testing.T) {
	t.Parallel()
	limit := ten(inf)
	take := func(b bucket.Bucket, seconds, n float64) (bucket.Bucket, bucket.Answer) {
		return bucket.Step(b, bucket.Rules(limit), clock(seconds),
			bucket.Request{Op: bucket.OpAllow, Tokens: []float64{n}})
	}
	older, _ := take(bucket.Bucket{}, 100, 1)
	for what, b := range map[string]bucket.Bucket{"missing": {}, "older": older} {
		b.Since = clock(200)
		v := reservations.ViewOf(b, limit, "", clock(200.5)) // tasks that were started before hold until 200.25
		if got := v.Meters[0].Level; got < 2.49 || got > 2.51 {
			t.Errorf("%s: half a second later there are %v tokens, want 2.5", what, got)
		}
		after, o := take(b, 200.5, 3)
		if o.State != refused || after.Version != b.Version+min(1, b.Version) {
			t.Errorf("%s: %s, version %d after %d", what, o.State, after.Version, b.Version)
		}
		if after, o = take(after, 200.55, 3); !o.Started() || !after.Since.IsZero() {
			t.Errorf("%s: then %s, of %+v", what, o.State, after)
		}
		if _, o = take(b, 201.25, 10); !o.Started() {
			t.Errorf("%s: a second later %s", what, o.State)
		}
	}
}

// Calls whose leases are lost may go on until their leases end.
func TestLostLeases(t *testing.T) {
	t.Parallel()
	limit := reservations.Limit{Name: "l", Meters: []reservations.Meter{reservations.InFlight(3)}}
	call := bucket.Request{Op: bucket.OpAllow, Tokens: []float64{1}, Lease: 7, For: 25 * time.Second}
	older, _ := bucket.Step(bucket.Bucket{}, bucket.Rules(limit), clock(100), call)
	for what, b := range map[string]bucket.Bucket{"missing": {}, "older": older} {
		b.Since = clock(200)
		call.Lease = 9
		if _, o := bucket.Step(b, bucket.Rules(limit), clock(200), call); o.Started() {
			t.Errorf("%s: a call started at once", what)
		}
		b, _ = bucket.Step(b, bucket.Rules(limit), clock(201), bucket.Request{Op: bucket.OpRefresh})
		if _, o := bucket.Step(b, bucket.Rules(limit), clock(224.9), call); o.Started() {
			t.Errorf("%s: a call started beside one whose lease is lost", what)
		}
		if _, o := bucket.Step(b, bucket.Rules(limit), clock(226), call); !o.Started() {
			t.Errorf("%s: %s after all leases have ended", what, o.State)
		}
	}
}

// Whatever a store loses, and whenever, the provider has room for each call.
func TestNoLossExceedsTheLimit(t *testing.T) {
	t.Parallel()
	histories := 3000
	if testing.Short() {
		histories = 500
	}
	losses := 0
	for seed := range seeded.Range(t, histories) {
		r := rand.New(rand.NewPCG(7, seed))
		losses += loseBuckets(t, r, fmt.Sprintf("seed %d", seed))
	}
	if losses < histories {
		t.Errorf("only %d losses", losses)
	}
}

func loseBuckets(t *testing.T, r *rand.Rand, what string) (losses int) {
	t.Helper()
	pick := func(of ...float64) float64 { return of[r.IntN(len(of))] }
	meter := perSecond("m", pick(1, 10, 1000), pick(1, 10, 100), inf)
	if r.IntN(4) == 0 {
		meter.Kind, meter.Rate, meter.Period, meter.Capacity = reservations.KindWindow, 10, 5*time.Second, 0
	}
	limit := reservations.Limit{Name: "l", Meters: []reservations.Meter{meter}}
	now := clock(r.Float64() * 60)
	p := newProvider(limit, 0, now)
	var b bucket.Bucket
	states, running := []bucket.Bucket{{}}, []float64{}
	for step := range 60 {
		d := time.Duration(pick(0, 0, .01, .1, .5, 3, 20) * r.Float64() * float64(time.Second))
		p.pass(d)
		now = now.Add(d)
		q := bucket.Request{Op: bucket.OpStart, Tokens: []float64{meter.Cap() * r.Float64()}, Promoted: true}
		switch r.IntN(5) {
		case 0: // another server has an older state, or none
			b = states[r.IntN(len(states))]
			b.Since = now
			losses++
		case 1:
			if len(running) > 0 { // a call ends, and gives back what it did not use
				q = bucket.Request{
					Op: bucket.OpSettle, ID: int64(step + 1),
					Tokens: []float64{running[0] * r.Float64()},
				}
				running = running[1:]
				p.refund(q.Tokens[0])
			}
		}
		var o bucket.Answer
		b, o = bucket.Step(b, bucket.Rules(limit), now, q)
		states = append(states, b)
		if o.Started() {
			p.comes(int64(step), o.Hold, q.Tokens[0])
			if o.Hold == 0 {
				running = append(running, q.Tokens[0])
			}
		}
		if p.fault != "" {
			t.Fatalf("%s, step %d: %s", what, step, p.fault)
		}
	}
	return losses
}
