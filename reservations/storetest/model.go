package storetest

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

const (
	modelBuckets = 40
	modelCalls   = 25 // for each bucket, with 1 to 40 requests
	// anyID spreads small numbers over all that an ID may be.
	anyID = 0x1E3779B97F4A7C15
)

// testModel compares random histories, decided by two processes, with what bucket.Step makes of them: every
// outcome and every stored bucket is exactly the same.
func testModel(d driver) {
	seed := rand.Uint64() //nolint:gosec // a test needs no secrecy
	d.t.Logf("seed %d", seed)
	peer := d.i.peer(d.t)
	requests := 0
	for b := range modelBuckets {
		random := rand.New(rand.NewPCG(seed, uint64(b))) //nolint:gosec // a failure has to be repeatable
		m := model{driver: d, r: random, what: fmt.Sprintf("seed %d, bucket %d", seed, b)}
		m.key, m.limit = strconv.Itoa(b), m.randomLimit()
		for call := 0; call < modelCalls && !d.t.Failed(); call++ {
			if m.i.Store = d.i.Store; random.IntN(4) == 0 {
				m.i.Store = peer
			}
			requests += m.call()
		}
	}
	if requests < 2000 && !d.t.Failed() {
		d.t.Errorf("only %d requests were compared", requests)
	}
}

// model is one bucket beside what Step makes of it.
type model struct {
	driver

	r      *rand.Rand
	before []reservations.Limit
	bucket bucket.Bucket
	what   string
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func (m *model) randomMeter(name string) reservations.Meter {
	meter := reservations.Meter{
		Name: name, Rate: pick(m.r, 1., 10., 100., 3000., 1/3.), Period: pick(m.r, time.Second, time.Second, time.Minute),
		Capacity: pick(m.r, 0, 5., 50.), MaxReserved: pick(m.r, 0, reservations.None, 20, 200),
	}
	switch m.r.IntN(5) {
	case 0:
		meter.Kind, meter.Start = reservations.KindWindow, time.Duration(m.r.IntN(3_600_000))*ms
		if m.r.IntN(4) == 0 { // in the future of a NewClock
			meter.Start += time.Duration(NewClock().Now().UnixNano()).Truncate(time.Hour)
		}
	case 1:
		meter.Headroom = meter.Cap() * pick(m.r, 0, .1, .3, .9)
	case 2:
		meter.Adaptive = reservations.Adaptive{
			Max: meter.Rate * pick(m.r, 1., 3., 100.), Ramp: pick(m.r, 0, 10*time.Second, time.Minute),
		}
	case 3:
		meter.Capacity, meter.MaxReserved = reservations.None, pick(m.r, 0, 20.)
	}
	return meter
}

func (m *model) randomLimit() reservations.Limit {
	limit := reservations.Limit{Name: "model", MaxWait: pick(m.r, 0, 0, 0, 2*time.Second, 600*ms)}
	for _, name := range []string{"a", "b.b", "c-c"}[:1+m.r.IntN(3)] {
		limit.Meters = append(limit.Meters, m.randomMeter(name))
	}
	if m.r.IntN(3) == 0 {
		limit.Meters = append(limit.Meters, reservations.InFlight(1+m.r.IntN(8)))
	}
	return limit
}

// changeLimit does what a new configuration may do: another order, a meter added, dropped or changed; or it goes back
// to an earlier limit, which other callers may still have.
func (m *model) changeLimit() {
	if before := m.before; len(before) > 0 && m.r.IntN(2) == 0 {
		m.limit = before[m.r.IntN(len(before))]
		return
	}
	m.before = append(m.before, m.limit)
	meters := slices.Clone(m.limit.Meters)
	switch k := m.r.IntN(len(meters)); m.r.IntN(5) {
	case 0:
		m.r.Shuffle(len(meters), func(i, j int) { meters[i], meters[j] = meters[j], meters[i] })
	case 1:
		meters = append(meters, m.randomMeter(fmt.Sprintf("new%d", m.r.Uint32())))
	case 2:
		if len(meters) > 1 {
			meters = slices.Delete(meters, k, k+1)
		}
	case 3:
		if meters[k].Kind == reservations.KindInFlight {
			meters[k] = reservations.InFlight(1 + m.r.IntN(8))
		} else {
			meters[k] = m.randomMeter(meters[k].Name)
		}
	case 4:
		times := pick(m.r, .1, .9, 1.5, 10)
		meters[k].Rate, meters[k].Adaptive.Max = meters[k].Rate*times, meters[k].Adaptive.Max*times
		m.limit.MaxWait = pick(m.r, 0, time.Second, time.Minute)
	}
	m.limit.Meters = meters[:min(len(meters), 3)]
}

func (m *model) randomRequest() bucket.Request {
	r := bucket.Request{
		Op: pick(m.r, bucket.OpStart, bucket.OpStart, bucket.OpStart, bucket.OpReserve,
			bucket.OpAllow, bucket.OpSettle, bucket.OpSettle, bucket.OpRelease, bucket.OpRenew,
			bucket.OpBlock, bucket.OpUnblock, bucket.OpSync, bucket.OpRefresh, bucket.OpRefuse, bucket.OpAnswered),
		Promoted: m.r.IntN(3) == 0, Urgent: m.r.IntN(4) == 0, Up: m.r.IntN(2) == 0, Dry: m.r.IntN(8) == 0,
	}
	r.Reserved = r.Promoted && m.r.IntN(2) == 0
	switch r.Op { //nolint:exhaustive // the others have no lease
	case bucket.OpStart, bucket.OpAllow, bucket.OpRenew, bucket.OpSettle:
		r.Lease = (1 + m.r.Int64N(30)) * anyID
		r.For = pick(m.r, 0, 500*ms, 25*time.Second)
	}
	switch r.Op {
	case bucket.OpRenew:
		return r
	case bucket.OpRefuse, bucket.OpAnswered:
		r.By, r.Began = (1+m.r.Int64N(20))*anyID, m.bucket.At.Add(-pick(m.r, 0, 1, time.Second, time.Minute))
		if r.Op == bucket.OpAnswered {
			return r
		}
		r.For = pick(m.r, 0, 0, time.Second, time.Hour)
		r.Reason = pick(m.r, "", bucket.ReasonLimit, bucket.ReasonQuota, bucket.ReasonKey)
	case bucket.OpUnblock, bucket.OpRefresh:
		return r
	case bucket.OpBlock:
		r.For = time.Duration((m.r.Float64() - 0.1) * float64(pick(m.r, time.Second, 30*time.Second, time.Hour)))
		return r
	case bucket.OpSettle:
		if m.r.IntN(3) > 0 {
			r.ID = (m.r.Int64N(150) - 75) * anyID
		}
		r.For = time.Duration(m.r.Float64() * float64(pick(m.r, 0, 0, time.Second, time.Minute)))
		if meters := m.bucket.Meters; len(meters) > 0 && len(meters[0].Held) > 0 {
			r.HoldEnd = pick(m.r, meters[0].Held...).Until
		}
	case bucket.OpSync:
		r.For = time.Duration(m.r.Float64() * float64(pick(m.r, 0, time.Second, 3*time.Minute)))
	case bucket.OpStart, bucket.OpReserve, bucket.OpAllow, bucket.OpRelease:
	}
	r.Tokens = make([]float64, len(m.limit.Meters))
	for k := range r.Tokens {
		r.Tokens[k] = pick(m.r, 0, 1., 3., 7.5, 60.) * (0.9 + 0.2*m.r.Float64())
		if r.Op == bucket.OpSettle || r.Op == bucket.OpSync {
			r.Tokens[k] = -5 + 15*m.r.Float64()
		}
	}
	return r
}

// call lets some time pass, sends some requests and compares. It returns how many.
func (m *model) call() int {
	m.i.Advance(pick(m.r, 0, 1, ms, 50*ms+1, 500*ms, 3*time.Second, 20*time.Second,
		-40*ms, -20*time.Second, -10*time.Minute))
	if m.r.IntN(10) == 0 {
		m.changeLimit()
	}
	if m.r.IntN(50) == 0 {
		m.reset()
		m.bucket = bucket.Bucket{}
	}
	requests := make([]bucket.Request, pick(m.r, 1, 1, 3, 10, 40))
	for k := range requests {
		requests[k] = m.randomRequest()
	}
	_, now := m.load()
	b, limit := m.bucket, bucket.Rules(m.limit)
	for k, got := range m.apply(requests...) {
		var want bucket.Answer
		b, want = bucket.Step(b, limit, now, requests[k])
		if got.Bucket, want.Bucket = plain(got.Bucket), plain(want.Bucket); !reflect.DeepEqual(got, want) {
			m.t.Fatalf("%s: request %d of %+v\nof %+v\nto   %+v\ngot  %+v\nwant %+v",
				m.what, k, requests, m.limit, m.bucket, got, want)
		}
	}
	if b.Version != m.bucket.Version {
		m.bucket = b
	}
	if got, _ := m.load(); !reflect.DeepEqual(plain(got), plain(m.bucket)) {
		m.t.Fatalf("%s: after %+v\nof %+v\nthere is %+v\nwant     %+v", m.what, requests, m.limit, got, m.bucket)
	}
	return len(requests)
}

// plain is the bucket with an empty list as nil: a store may read the one for the other.
func plain(b bucket.Bucket) bucket.Bucket {
	if r := b.Refused; r != nil && len(r.By) == 0 {
		same := *r
		same.By = nil
		b.Refused = &same
	}
	return b
}
