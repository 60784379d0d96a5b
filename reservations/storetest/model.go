package storetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/headway-go/headway/reservations"
)

const (
	modelBuckets = 50
	modelCalls   = 20 // for each bucket, with 1 to 10 requests
)

// testModel compares random sequences of requests with reservations.Step.
func testModel(d driver) {
	seed := rand.Uint64() //nolint:gosec // a test needs no secrecy
	d.t.Logf("seed %d", seed)
	requests := 0
	for b := range modelBuckets {
		random := rand.New(rand.NewPCG(seed, uint64(b))) //nolint:gosec // a failure has to be repeatable
		m := model{t: d.t, i: d.i, r: random, key: strconv.Itoa(b), what: fmt.Sprintf("seed %d, bucket %d", seed, b)}
		m.limit = m.randomLimit()
		for call := 0; call < modelCalls && !d.t.Failed(); call++ {
			requests += m.call()
		}
	}
	if requests < 2000 && !d.t.Failed() {
		d.t.Errorf("only %d requests were compared", requests)
	}
}

// model is one bucket beside what Step makes of it.
type model struct {
	t      *testing.T
	i      Instance
	r      *rand.Rand
	limit  reservations.Limit
	key    string
	bucket reservations.Bucket
	start  time.Time     // the first moment the store answered with
	now    time.Duration // since start
	what   string
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func (m *model) randomMeter(name string) reservations.Meter {
	meter := reservations.Meter{
		Name: name, Rate: pick(m.r, 1., 10., 100., 3000.), Period: pick(m.r, time.Second, time.Second, time.Minute),
		Capacity: pick(m.r, 0, 5., 50.), MaxReserved: pick(m.r, reservations.Unlimited, 0, 20., 200.),
	}
	if m.r.IntN(3) == 0 {
		meter.Kind, meter.Start = reservations.KindWindow, time.Duration(m.r.IntN(3_600_000))*ms
		if m.r.IntN(4) == 0 { // in the future of a NewClock
			meter.Start += time.Duration(NewClock().Now().UnixNano()).Truncate(time.Hour)
		}
	}
	return meter
}

func (m *model) randomLimit() reservations.Limit {
	limit := reservations.Limit{Name: "model"}
	for _, name := range []string{"a", "b.b", "c-c"}[:1+m.r.IntN(3)] {
		limit.Meters = append(limit.Meters, m.randomMeter(name))
	}
	return limit
}

// changeLimit does what a new configuration may do: another order, a meter added, dropped or changed.
func (m *model) changeLimit() {
	meters := slices.Clone(m.limit.Meters)
	switch k := m.r.IntN(len(meters)); m.r.IntN(4) {
	case 0:
		m.r.Shuffle(len(meters), func(i, j int) { meters[i], meters[j] = meters[j], meters[i] })
	case 1:
		meters = append(meters, m.randomMeter(fmt.Sprintf("new%d", m.r.Uint32())))
	case 2:
		if len(meters) > 1 {
			meters = slices.Delete(meters, k, k+1)
		}
	case 3:
		meters[k] = m.randomMeter(meters[k].Name)
	}
	m.limit.Meters = meters[:min(len(meters), 3)]
}

func (m *model) randomRequest() reservations.Request {
	request := reservations.Request{
		Op: pick(m.r, reservations.OpBegin, reservations.OpBegin, reservations.OpBegin, reservations.OpBegin, reservations.OpBegin,
			reservations.OpReserve, reservations.OpCheck, reservations.OpTake, reservations.OpTake,
			reservations.OpSettle, reservations.OpSettle, reservations.OpRelease, reservations.OpYield, reservations.OpBlock),
		State: pick(m.r, "", reservations.StateNew, reservations.StateNew, reservations.StateTicket, reservations.StateAgain,
			reservations.StateReserved, reservations.StateLate, reservations.StateStarted, reservations.StateRefused, reservations.StateSettled),
		Tokens: make([]float64, len(m.limit.Meters)), Dry: m.r.IntN(10) == 0,
	}
	if request.Op == reservations.OpBlock {
		request.For = time.Duration((m.r.Float64() - 0.1) * float64(pick(m.r, time.Second, 30*time.Second, 30*time.Hour)))
	}
	for k := range request.Tokens {
		request.Tokens[k] = pick(m.r, 0, 1., 3., 7.5, 60.) * (0.9 + 0.2*m.r.Float64())
		if request.Op == reservations.OpSettle {
			request.Tokens[k] = -5 + 15*m.r.Float64()
		}
	}
	if request.Op == reservations.OpSettle && m.r.IntN(2) == 0 { // only back, which moves the line
		for k := range request.Tokens {
			request.Tokens[k] = math.Abs(request.Tokens[k])
		}
	}
	return request
}

// call lets some time pass, sends some requests and compares. It returns how many.
func (m *model) call() int {
	passed := pick(m.r, 0, ms, 50*ms, 500*ms, 3*time.Second, 20*time.Second, -40*ms, -20*time.Second, -10*time.Minute)
	m.i.Advance(passed)
	m.now += passed
	if m.r.IntN(10) == 0 {
		m.changeLimit()
	}
	requests := make([]reservations.Request, pick(m.r, 1, 1, 3, 10))
	for k := range requests {
		requests[k] = m.randomRequest()
	}
	got, err := m.i.Store.Apply(m.t.Context(), m.limit, m.key, requests)
	if err != nil || len(got) != len(requests) {
		m.t.Fatalf("%s: %d outcomes, %v", m.what, len(got), err)
	}
	if m.start.IsZero() { // from here on the store's clock is known
		m.start, m.now = got[0].At, 0
	}
	for k, r := range requests {
		var want reservations.Outcome
		m.bucket, want = reservations.Step(m.bucket, m.limit, m.start.Add(m.now), r)
		if !same(got[k], want) {
			m.t.Errorf("%s, %v after its start: request %d of %+v\nof %+v\n got %+v\nwant %+v\nbucket then %+v",
				m.what, m.now, k, requests, m.limit, got[k], want, m.bucket)
			return len(requests)
		}
	}
	m.compareBucket()
	return len(requests)
}

// compareBucket compares what is stored.
func (m *model) compareBucket() {
	got, ok, err := m.i.Store.Bucket(m.t.Context(), m.limit.Name, m.key)
	if err != nil || !ok {
		m.t.Fatalf("%s: read the bucket: %v %v", m.what, ok, err)
	}
	same := got.At.Equal(m.bucket.At) && got.Version == m.bucket.Version && got.Generation == m.bucket.Generation &&
		close6(got.Shift, m.bucket.Shift) && close6(got.Carry, m.bucket.Carry) && close6(got.Blocked, m.bucket.Blocked) && len(got.Meters) == len(m.bucket.Meters)
	for k := 0; same && k < len(got.Meters); k++ {
		same = got.Meters[k].Name == m.bucket.Meters[k].Name
		for l := range got.Meters[k].Ledgers {
			same = same && close6(got.Meters[k].Ledgers[l], m.bucket.Meters[k].Ledgers[l])
		}
	}
	if !same {
		m.t.Errorf("%s, %v after its start, %+v:\n got %+v\nwant %+v", m.what, m.now, m.limit, got, m.bucket)
	}
}

func same(got, want reservations.Outcome) bool {
	due := got.Due.Equal(want.Due) || !got.Due.IsZero() && !want.Due.IsZero() && near(got.Due.Sub(want.Due), 0)
	return got.State == want.State && due && near(got.Hold, want.Hold) && near(got.Shift, want.Shift) &&
		got.At.Equal(want.At) && got.Generation == want.Generation && got.Version == want.Version
}

func close6(a, b float64) bool { return math.Abs(a-b) <= noMoreThan*max(1, math.Abs(b)) }
