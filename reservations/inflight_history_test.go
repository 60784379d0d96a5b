package reservations_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/test/seeded"
	"github.com/headway-go/headway/reservations"
)

// fleetOfCalls are the calls of processes that do all that processes do: end calls, late, twice or never, renew leases,
// late or never, lose answers, and end calls whose lease could not be renewed. A call is there until it has ended,
// whatever its bucket says of it.
type fleetOfCalls struct {
	limits []reservations.Limit // of the callers
	bucket bucket.Bucket
	now    float64 // the store's clock
	passed float64 // seconds that really passed
	runs   []flight
	gone   []int64 // leases of calls that have ended
	ids    int64
}

type flight struct {
	lease  int64
	tokens float64
	end    float64 // when it ends at the latest, in passed
}

// lasts is how long a call goes on after its lease was last renewed.
const lasts = 20

func (f *fleetOfCalls) pass(seconds float64) {
	f.now, f.passed = f.now+seconds, f.passed+seconds
	f.runs = slices.DeleteFunc(f.runs, func(r flight) bool {
		if r.end > f.passed {
			return false
		}
		f.gone = append(f.gone, r.lease)
		return true
	})
}

// ask sends a request, which takes its time to the store, and says when it was sent.
func (f *fleetOfCalls) ask(t *rapid.T, r bucket.Request) (o bucket.Answer, sent float64) {
	sent = f.passed
	f.pass(rapid.SampledFrom([]float64{0, .003, .4, 4.9}).Draw(t, "on its way"))
	limit := rapid.SampledFrom(f.limits).Draw(t, "limit")
	most := limit.Meters[1].Capacity
	f.bucket, o = bucket.Step(f.bucket, bucket.Rules(limit), clock(f.now), r)
	wellFormed(t, bucket.Rules(limit), f.bucket)
	if o.Started() && f.running()+r.Tokens[1] > most {
		t.Fatalf("%v start of %v, and %+v run: %+v", r.Tokens[1], most, f.runs, f.bucket)
	}
	return o, sent
}

func (f *fleetOfCalls) running() (n float64) {
	for _, r := range f.runs {
		n += r.tokens
	}
	return n
}

func (f *fleetOfCalls) start(t *rapid.T) {
	f.ids++
	op := bucket.OpStart
	if rapid.IntRange(0, 2).Draw(t, "allow") == 0 {
		op = bucket.OpAllow
	}
	n := rapid.SampledFrom([]float64{1, 1, 1, 2, .5}).Draw(t, "slots")
	o, sent := f.ask(t, bucket.Request{
		Op: op, Tokens: []float64{rapid.SampledFrom([]float64{0, 1}).Draw(t, "tokens"), n}, Lease: f.ids,
		For: 25 * time.Second, Promoted: rapid.Bool().Draw(t, "promoted"),
	})
	if o.Started() && rapid.IntRange(0, 9).Draw(t, "answer") > 0 && sent+lasts > f.passed {
		f.runs = append(f.runs, flight{f.ids, n, sent + lasts})
	}
}

// ends removes one of the calls.
func (f *fleetOfCalls) ends(t *rapid.T) (id int64, ok bool) {
	if len(f.runs) == 0 {
		return 0, false
	}
	i := rapid.IntRange(0, len(f.runs)-1).Draw(t, "which")
	id = f.runs[i].lease
	f.runs, f.gone = slices.Delete(f.runs, i, i+1), append(f.gone, id)
	return id, true
}

func (f *fleetOfCalls) settle(t *rapid.T, id int64) {
	f.ask(t, bucket.Request{Op: bucket.OpSettle, Tokens: []float64{0, 0}, Lease: id})
}

func (f *fleetOfCalls) renew(t *rapid.T) {
	for _, r := range slices.Clone(f.runs) {
		if rapid.IntRange(0, 3).Draw(t, "skips") == 0 {
			continue
		}
		o, sent := f.ask(t, renewed(r.lease))
		i := slices.IndexFunc(f.runs, func(is flight) bool { return is.lease == r.lease })
		switch {
		case i < 0: // it has ended meanwhile
		case o.State == refused:
			t.Fatalf("a call that runs has no lease: %+v, %+v", r, f.bucket)
		case rapid.IntRange(0, 3).Draw(t, "answer") > 0:
			f.runs[i].end = max(f.runs[i].end, sent+lasts)
		}
	}
}

func (f *fleetOfCalls) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"start":       f.start,
		"start more":  func(t *rapid.T) { f.start(t); f.start(t) },
		"renew":       f.renew,
		"renew again": f.renew,
		"end": func(t *rapid.T) {
			if id, ok := f.ends(t); ok {
				f.settle(t, id)
			}
		},
		"kill": func(t *rapid.T) { f.ends(t) },
		"settle or renew what has ended": func(t *rapid.T) {
			if len(f.gone) > 0 {
				id := rapid.SampledFrom(f.gone).Draw(t, "gone")
				if rapid.Bool().Draw(t, "settle") {
					f.settle(t, id)
				} else {
					f.ask(t, renewed(id))
				}
			}
		},
		"others": func(t *rapid.T) {
			f.ask(t, rapid.SampledFrom([]bucket.Request{
				block(1), unblock(), refresh(), reserve(1, 1), release(1, 3), settle(1, 3), up(synced(0, 3, 5)),
			}).Draw(t, "other"))
		},
		"time passes": func(t *rapid.T) { f.pass(rapid.SampledFrom([]float64{.2, 1, 5, 16, 30}).Draw(t, "seconds")) },
		"the clock runs back": func(t *rapid.T) {
			f.now -= rapid.SampledFrom([]float64{.02, 20, 3600}).Draw(t, "seconds")
		},
	}
}

// Whatever processes do, never more calls run than the limit of the starting process allows. A call that runs has its
// lease, and all slots are back within 26 seconds.
func TestCallsInFlightHistories(t *testing.T) {
	t.Parallel()
	seeded.Check(t, func(t *rapid.T) {
		f := &fleetOfCalls{now: rapid.Float64Range(0, 60).Draw(t, "begins")}
		for _, most := range rapid.SliceOfN(rapid.IntRange(2, 6), 1, 2).Draw(t, "calls") {
			f.limits = append(f.limits, limitOf(perSecond("tokens", 10, 10, inf), reservations.InFlight(most)))
		}
		t.Repeat(f.actions())
		f.runs = nil
		back := max(f.now, f.bucket.At.Sub(clock(0)).Seconds()) + 26 // the bucket does not follow a clock that runs back
		b, _ := bucket.Step(f.bucket, bucket.Rules(f.limits[0]), clock(back), refresh())
		if free := b.Meters[1].Started; free != f.limits[0].Meters[1].Capacity {
			t.Fatalf("%v of %+v are free", free, f.limits[0].Meters[1])
		}
	})
}
