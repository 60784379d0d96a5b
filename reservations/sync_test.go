package reservations_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/reservations"
)

func TestSync(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		seen  reservations.Observation
		want  map[string]float64 // what is left of 59 requests and 600 tokens
		calls int
		fault error
	}{
		{
			"less is there",
			reservations.Observation{Remaining: reservations.Tokens{"tokens": 100}},
			map[string]float64{"requests": 59, "tokens": 100},
			1, nil,
		},
		{
			"none is there",
			reservations.Observation{Remaining: reservations.Tokens{"tokens": 0, "requests": 0}},
			map[string]float64{"requests": 0, "tokens": 0},
			1, nil,
		},
		{
			"more is there",
			reservations.Observation{Remaining: reservations.Tokens{"tokens": 900}},
			map[string]float64{"requests": 59, "tokens": 600},
			1, nil,
		},
		{
			"more, and it may rise",
			reservations.Observation{Remaining: reservations.Tokens{"tokens": 900}, Up: true},
			map[string]float64{"requests": 59, "tokens": 900},
			1, nil,
		},
		{
			"a while ago",
			reservations.Observation{Remaining: reservations.Tokens{"requests": 10}, Age: 20 * time.Second},
			map[string]float64{"requests": 30, "tokens": 600},
			1, nil,
		},
		{
			"in the future is now",
			reservations.Observation{Remaining: reservations.Tokens{"requests": 10}, Age: -time.Second},
			map[string]float64{"requests": 10, "tokens": 600},
			1, nil,
		},
		{
			"too old",
			reservations.Observation{Remaining: reservations.Tokens{"requests": 10}, Age: time.Hour + 1},
			map[string]float64{"requests": 59, "tokens": 600},
			0, nil,
		},
		{"nothing", reservations.Observation{}, map[string]float64{"requests": 59, "tokens": 600}, 0, nil},
		{
			"unknown meter",
			reservations.Observation{Remaining: reservations.Tokens{"images": 1, "tokens": 7}},
			map[string]float64{"requests": 59, "tokens": 7},
			1, reservations.ErrUnknownMeter,
		},
		{
			"what can't be",
			reservations.Observation{Remaining: reservations.Tokens{"tokens": math.NaN(), "requests": -1}},
			map[string]float64{"requests": 59, "tokens": 600},
			0, reservations.ErrInvalidCharge,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := setupLimiter(t, openai())
			task := reservations.Charge{Limit: "openai", Key: "gpt", Tokens: reservations.Tokens{"requests": 1, "tokens": 400}}
			l.mustStart(t, task)
			o, err := l.Sync(t.Context(), task, c.seen)
			if !errors.Is(err, c.fault) || c.fault == nil && err != nil || (o.State == settled) != (c.calls > 0) {
				t.Errorf("%+v, %v", o, err)
			}
			if diff := cmp.Diff(c.want, l.left("openai", "gpt")); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
			if calls := len(l.store.asked()) - 1; calls != c.calls {
				t.Errorf("%d calls, want %d", calls, c.calls)
			}
		})
	}
}

func TestSyncErrors(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, openai())
	seen := reservations.Observation{Remaining: reservations.Tokens{"tokens": 1}}
	if _, err := l.Sync(t.Context(), reservations.Charge{Limit: "unknown"}, seen); !errors.Is(err,
		reservations.ErrUnknownLimit) {
		t.Errorf("of an unknown limit: %v", err)
	}
	l.store.faults = []fault{down}
	if _, err := l.Sync(t.Context(), reservations.Charge{Limit: "openai"}, seen); !errors.Is(err,
		reservations.ErrUnavailable) {
		t.Errorf("with the store down: %v", err)
	}
	if calls := len(l.store.asked()); calls != 1 {
		t.Errorf("it was repeated: %d calls", calls)
	}
}

// One answer that says that nothing is left does not stop a long window until it ends; answers that agree do.
func TestOneAnswerTakesAPartOfALongWindow(t *testing.T) {
	t.Parallel()
	window := func(period time.Duration) reservations.Meter {
		return reservations.Meter{Name: "requests", Rate: 10_000, Period: period, Kind: reservations.KindWindow}
	}
	for name, c := range map[string]struct {
		meter   reservations.Meter
		left    float64 // what the answers say
		answers int
		want    float64
	}{
		"a day, one answer":            {window(24 * time.Hour), 0, 1, 5000},
		"a day, two answers":           {window(24 * time.Hour), 0, 2, 2500},
		"a day, fourteen answers":      {window(24 * time.Hour), 0, 14, 10_000. / (1 << 14)},
		"a day, a little less is left": {window(24 * time.Hour), 9000, 1, 9000},
		"two hours":                    {window(2 * time.Hour), 100, 1, 5000},
		"a minute":                     {window(time.Minute), 0, 1, 0},
		"a bucket of a day": {
			reservations.Meter{Name: "requests", Rate: 10_000, Period: 24 * time.Hour}, 0, 1, 0,
		},
	} {
		l := setupLimiter(t, reservations.Limit{Name: "openai", Meters: []reservations.Meter{c.meter}})
		charge := reservations.Charge{Limit: "openai", Tokens: reservations.Tokens{"requests": 1}}
		for range c.answers {
			seen := reservations.Observation{Remaining: reservations.Tokens{"requests": c.left}}
			if _, err := l.Sync(t.Context(), charge, seen); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if got := l.left("openai", "")["requests"]; math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%s: %v left, want %v", name, got, c.want)
		}
	}
}
