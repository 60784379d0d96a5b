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
		m.limit, m.urgent = m.randomLimit(), random.IntN(4)
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
	t           *testing.T
	i           Instance
	r           *rand.Rand
	limit       reservations.Limit
	before      []reservations.Limit
	key         string
	urgent      int // of 5 requests
	hadHeadroom bool
	bucket      reservations.Bucket
	start       time.Time     // the first moment the store answered with
	now         time.Duration // since start
	what        string
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
	limit := reservations.Limit{Name: "model", MaxWait: pick(m.r, 0, 0, 0, 2*time.Second, 30*time.Second, 600*ms)}
	for _, name := range []string{"a", "b.b", "c-c"}[:1+m.r.IntN(3)] {
		limit.Meters = append(limit.Meters, m.randomMeter(name))
	}
	return m.randomHeadroom(limit)
}

// randomHeadroom gives a limit without windows headroom, as often as not; one with windows loses it.
func (m *model) randomHeadroom(limit reservations.Limit) reservations.Limit {
	windows := slices.ContainsFunc(limit.Meters, func(m reservations.Meter) bool { return m.Kind == reservations.KindWindow })
	some := m.r.IntN(2) == 0 && !windows
	limit.Meters, limit.OrdinaryShare = slices.Clone(limit.Meters), pick(m.r, 0, .05, .5)
	for k := range limit.Meters {
		if limit.Meters[k].Headroom = 0; some {
			limit.Meters[k].Headroom = limit.Meters[k].Cap() * pick(m.r, 0, .1, .3, .9)
		}
	}
	return limit
}

// changeLimit does what a new configuration may do: another order, a meter added, dropped or changed; or what it was before, as other callers may
// still have it.
func (m *model) changeLimit() {
	if before := m.before; len(before) > 0 && m.r.IntN(2) == 0 {
		m.limit = before[m.r.IntN(len(before))]
		return
	}
	m.before = append(m.before, m.limit)
	meters := slices.Clone(m.limit.Meters)
	switch k := m.r.IntN(len(meters)); m.r.IntN(7) { // 6: only the headroom
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
	case 4: // only the rate
		meters[k].Rate *= pick(m.r, .1, .9, 1.5, 10)
	case 5:
		meters[k].Rate *= pick(m.r, .1, 10)
		m.limit.MaxWait = pick(m.r, 0, time.Second, time.Minute)
	}
	m.limit.Meters = meters[:min(len(meters), 3)]
	m.limit = m.randomHeadroom(m.limit)
}

func (m *model) randomRequest() reservations.Request {
	request := reservations.Request{
		Op: pick(m.r, reservations.OpBegin, reservations.OpBegin, reservations.OpBegin, reservations.OpBegin, reservations.OpBegin,
			reservations.OpReserve, reservations.OpCheck, reservations.OpTake, reservations.OpTake,
			reservations.OpSettle, reservations.OpSettle, reservations.OpRelease, reservations.OpYield, reservations.OpLose, reservations.OpBlock, reservations.OpSync, reservations.OpAdvance),
		State: pick(m.r, "", reservations.StateNew, reservations.StateNew, reservations.StateTicket, reservations.StateAgain,
			reservations.StateReserved, reservations.StateReserved, reservations.StateLate, reservations.StateExpress, reservations.StateStarted, reservations.StateRefused, reservations.StateSettled),
		Tokens: make([]float64, len(m.limit.Meters)), Dry: m.r.IntN(10) == 0,
		Urgent: m.r.IntN(5) < m.urgent,
	}
	if !m.start.IsZero() && m.r.IntN(3) > 0 {
		request.Due = m.start.Add(m.now + time.Duration((m.r.Float64()-0.3)*float64(pick(m.r, time.Second, 30*time.Second))))
	}
	if request.Op == reservations.OpAdvance {
		request.Generation = m.bucket.Generation + pick[int64](m.r, 0, 0, 0, 0, 0, 1)
		request.For = pick(m.r, -time.Second, 0, time.Second, time.Minute, reservations.MaxWait)
	}
	if request.Op == reservations.OpReserve {
		request.For = pick(m.r, 0, 0, 50*ms, 2*time.Second)
	}
	if request.Op == reservations.OpBlock {
		request.For = time.Duration((m.r.Float64() - 0.1) * float64(pick(m.r, time.Second, 30*time.Second, 30*time.Hour)))
	}
	if request.Op == reservations.OpSync {
		request.Up = m.r.IntN(2) == 0
		request.For = time.Duration(m.r.Float64() * float64(pick(m.r, 0, time.Second, 3*time.Minute)))
	}
	if request.Op == reservations.OpSettle && m.r.IntN(3) > 0 {
		request.ID = m.r.Int64N(150) - 75
		request.For = time.Duration(m.r.Float64() * float64(pick(m.r, 0, 0, time.Second, time.Minute)))
	}
	for k := range request.Tokens {
		request.Tokens[k] = pick(m.r, 0, 1., 3., 7.5, 60.) * (0.9 + 0.2*m.r.Float64())
		if request.Op == reservations.OpSettle || request.Op == reservations.OpSync {
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
	m.advance(pick(m.r, 0, ms, 50*ms, 500*ms, 3*time.Second, 20*time.Second, -40*ms, -20*time.Second, -10*time.Minute))
	if m.r.IntN(10) == 0 {
		m.changeLimit()
	}
	requests := make([]reservations.Request, pick(m.r, 1, 1, 3, 10, 40))
	for k := range requests {
		requests[k] = m.randomRequest()
	}
	m.compare(requests)
	return len(requests)
}

func (m *model) advance(d time.Duration) {
	m.i.Advance(d)
	m.now += d
}

// compare sends the requests in one call, and compares what comes of it.
func (m *model) compare(requests []reservations.Request) {
	m.t.Helper()
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
			return
		}
	}
	m.compareBucket()
}

// compareBucket compares what is stored.
func (m *model) compareBucket() {
	got, ok, err := m.i.Store.Bucket(m.t.Context(), m.limit.Name, m.key)
	if err != nil || !ok {
		m.t.Fatalf("%s: read the bucket: %v %v", m.what, ok, err)
	}
	if m.hadHeadroom = m.hadHeadroom || m.limit.HasHeadroom(); m.hadHeadroom && !m.bucket.Keep.IsZero() && got.Keep.After(m.bucket.Keep) {
		got.Keep = m.bucket.Keep // a store may remember until when express was to be full
	}
	if fault := differs(got, m.bucket); fault != "" {
		m.t.Errorf("%s, %v after its start, %+v: %s:\n got %+v\nwant %+v", m.what, m.now, m.limit, fault, got, m.bucket)
	}
}

// differs says what of two buckets is not the same, within the precision of a store's numbers and dates.
func differs(got, want reservations.Bucket) string {
	switch {
	case !got.At.Equal(want.At) || got.Version != want.Version || got.Generation != want.Generation:
		return "time or version"
	case !close6(got.Shift, want.Shift) || !close6(got.Speed, want.Speed) || !close6(got.Carry, want.Carry) || !close6(got.Blocked, want.Blocked):
		return "the line"
	case !slices.EqualFunc(got.Meters, want.Meters, sameMeter):
		return "meters"
	case !slices.EqualFunc(got.Express, want.Express, close6) || !close6(got.ExpressShift, want.ExpressShift):
		return "urgent tasks"
	case !sameOwed(got, want):
		return "what is owed"
	case !slices.EqualFunc(got.Idle, want.Idle, func(a, b reservations.IdleMeter) bool {
		return a.At.Equal(b.At) && sameMeter(a.MeterState, b.MeterState)
	}):
		return "idle meters"
	case got.Keep.IsZero() != want.Keep.IsZero() || !near(got.Keep.Sub(want.Keep)/2, 0):
		return "how long to keep it"
	case !slices.Equal(got.Settled, want.Settled) || !got.Forgot.Equal(want.Forgot):
		return "settlements"
	}
	return ""
}

// sameOwed compares what is owed, which is the difference of ledgers: after blocks of hours they have more digits than a number keeps.
func sameOwed(got, want reservations.Bucket) bool {
	for k := range want.Owed {
		if k >= len(got.Owed) || math.Abs(got.Owed[k]-want.Owed[k]) > 1e-6+1e-9*math.Abs(want.Meters[k].Ledgers[reservations.LedgerLine])+1e-6*math.Abs(want.Owed[k]) {
			return false
		}
	}
	return len(got.Owed) == len(want.Owed)
}

func sameMeter(got, want reservations.MeterState) bool {
	return got.Name == want.Name && got.Filling == want.Filling && close6(got.Gap, want.Gap) && slices.EqualFunc(got.Ledgers[:], want.Ledgers[:], close6)
}

func same(got, want reservations.Outcome) bool {
	due := got.Due.Equal(want.Due) || !got.Due.IsZero() && !want.Due.IsZero() && near(got.Due.Sub(want.Due), 0)
	if far := want.Due.Sub(want.At).Abs(); !due && far > time.Hour { // where the line runs fast, rounding counts as much
		due = got.Due.Sub(want.Due).Abs() <= time.Duration(float64(far)*noMoreThan)
	}
	shift := near(got.Shift, want.Shift) || close6(got.Shift.Seconds(), want.Shift.Seconds())
	return got.State == want.State && due && near(got.Hold, want.Hold) && shift && close6(got.Speed, want.Speed) &&
		got.Headroom == want.Headroom && (near(got.ExpressShift, want.ExpressShift) || close6(got.ExpressShift.Seconds(), want.ExpressShift.Seconds())) &&
		got.At.Equal(want.At) && got.Generation == want.Generation && got.Version == want.Version
}

func close6(a, b float64) bool { return math.Abs(a-b) <= noMoreThan*max(1, math.Abs(b)) }
