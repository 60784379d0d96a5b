package reservations_test

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/headway-go/headway/reservations"
)

// windowOfDay is a limit of 10 a day, changed.
func windowOfDay(change func(*reservations.Meter)) reservations.Limit {
	m := reservations.PerDay("daily", 10)
	change(&m)
	return limitOf(m)
}

func TestPerDayIsFromMidnightToMidnight(t *testing.T) {
	t.Parallel()
	l := windowOfDay(func(*reservations.Meter) {})
	if err := l.Validate(); err != nil {
		t.Fatal(err)
	}
	noon := virtualStart.Add(12 * time.Hour)
	b, o := reservations.Step(reservations.Bucket{}, l, noon, reservations.Request{Op: take, Tokens: []float64{10}})
	if !o.Started() {
		t.Fatalf("%+v", o)
	}
	b, o = reservations.Step(b, l, noon.Add(time.Hour), reservations.Request{Op: begin, Tokens: []float64{1}})
	if o.State != reserved || !o.Due.Equal(virtualStart.Add(24*time.Hour)) {
		t.Errorf("%+v, want midnight", o)
	}
	if full := b.FullAt(l); !full.Equal(virtualStart.Add(48 * time.Hour)) { // one of the next day is promised
		t.Errorf("full at %v", full)
	}
}

// Windows that are spread start where the bucket's name says: the same on all machines, another for another key.
func TestSpreadWindows(t *testing.T) {
	t.Parallel()
	limit := windowOfDay(func(m *reservations.Meter) { m.Spread = true })
	wait := func(key string) time.Duration {
		l := setupLimiter(t, limit)
		c := reservations.Charge{Limit: "fleet", Key: key, Tokens: reservations.Tokens{"daily": 10}}
		if o, err := l.Take(t.Context(), c); err != nil || !o.Started() {
			t.Fatalf("%+v, %v", o, err)
		}
		if _, err := l.ReserveMany(t.Context(), []reservations.Charge{c}); err != nil {
			t.Fatal(err)
		}
		o, err := l.CheckTake(t.Context(), c)
		if err != nil || o.State != refused || o.Wait() <= 24*time.Hour || o.Wait() > 48*time.Hour {
			t.Fatalf("key %q: %+v, %v", key, o, err)
		}
		return o.Wait()
	}
	waits := map[time.Duration]bool{}
	for i := range 20 {
		key := strconv.Itoa(i)
		waits[wait(key)] = true
		if again := wait(key); !waits[again] {
			t.Errorf("key %s starts at another time on another machine: %v", key, again)
		}
	}
	if len(waits) < 19 {
		t.Errorf("20 buckets start at %d times", len(waits))
	}
}

// A backlog against 20 requests a second and 300 in a window of 30 s: every window is used up at once when it begins, nobody is
// delivered often, no window is exceeded, also after an outage, a 429, and with estimates that are too high. What comes back
// to a window is not used by those who wait: with estimates twice too high it is half used.
func TestFleetWindows(t *testing.T) {
	t.Parallel()
	limit := func(maxReserved float64) reservations.Limit {
		return limitOf(perSecond("requests", 20, 20, maxReserved), reservations.Meter{
			Name: "window", Kind: reservations.KindWindow, Rate: 300, Period: 30 * time.Second, MaxReserved: min(5*maxReserved, reservations.Unlimited),
		})
	}
	half := make([]float64, 3000)
	for i := range half {
		half[i] = .5
	}
	for _, c := range []struct {
		name string
		fleet
		util, deliveries float64
		most             int
	}{
		{"unlimited", fleet{limit: limit(math.Inf(1))}, .95, 2, 2},
		{"bounded", fleet{limit: limit(100)}, .95, 3, 3},
		{"outage", fleet{limit: limit(math.Inf(1)), outage: [2]float64{40, 100}}, .8, 3, 3},
		{"429", fleet{limit: limit(math.Inf(1)), block: [2]float64{40, 50}}, .9, 2, 3},
		{"too high", fleet{limit: limit(math.Inf(1)), real: half}, .5, 2, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := c.fleet
			f.tasks, f.seed = 3000, 1
			f = withDefaults(f)
			f.simulate()
			r := f.report()
			t.Logf("%+v", r)
			if r.done < f.tasks || r.early > 0 || r.win > 1+1e-9 || r.util < c.util || r.deliveries > c.deliveries || r.most > c.most {
				t.Errorf("%+v", r)
			}
		})
	}
}

// Before its Start a meter has what leaves it full at its Start.
func TestWindowThatStartsLater(t *testing.T) {
	t.Parallel()
	l := windowOfDay(func(m *reservations.Meter) {
		m.Capacity, m.Start = 25, time.Duration(virtualStart.Add(48*time.Hour).UnixNano())
	})
	day := 24 * time.Hour
	b, o := reservations.Step(reservations.Bucket{}, l, virtualStart.Add(time.Hour), reservations.Request{Op: take, Tokens: []float64{6}})
	if o.State != refused || !o.Due.Equal(virtualStart.Add(day)) {
		t.Errorf("%+v: there are 5 of 25, and 10 more at midnight", o)
	}
	if full := b.FullAt(l); !full.Equal(virtualStart.Add(2 * day)) {
		t.Errorf("full at %v", full)
	}
	if _, o := reservations.Step(b, l, virtualStart.Add(2*day), reservations.Request{Op: take, Tokens: []float64{25}}); !o.Started() {
		t.Errorf("at its start: %+v", o)
	}
}
