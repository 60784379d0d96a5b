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
			"less is there", reservations.Observation{Remaining: reservations.Tokens{"tokens": 100}},
			map[string]float64{"requests": 59, "tokens": 100}, 1, nil,
		},
		{
			"none is there", reservations.Observation{Remaining: reservations.Tokens{"tokens": 0, "requests": 0}},
			map[string]float64{"requests": 0, "tokens": 0}, 1, nil,
		},
		{
			"more is there", reservations.Observation{Remaining: reservations.Tokens{"tokens": 900}},
			map[string]float64{"requests": 59, "tokens": 600}, 1, nil,
		},
		{
			"more, and it may rise",
			reservations.Observation{Remaining: reservations.Tokens{"tokens": 900}, Up: true},
			map[string]float64{"requests": 59, "tokens": 900}, 1, nil,
		},
		{
			"a while ago",
			reservations.Observation{Remaining: reservations.Tokens{"requests": 10}, Age: 20 * time.Second},
			map[string]float64{"requests": 30, "tokens": 600}, 1, nil,
		},
		{
			"in the future is now",
			reservations.Observation{Remaining: reservations.Tokens{"requests": 10}, Age: -time.Second},
			map[string]float64{"requests": 10, "tokens": 600}, 1, nil,
		},
		{
			"too old", reservations.Observation{Remaining: reservations.Tokens{"requests": 10}, Age: time.Hour + 1},
			map[string]float64{"requests": 59, "tokens": 600}, 0, nil,
		},
		{"nothing", reservations.Observation{}, map[string]float64{"requests": 59, "tokens": 600}, 0, nil},
		{
			"unknown meter", reservations.Observation{Remaining: reservations.Tokens{"images": 1, "tokens": 7}},
			map[string]float64{"requests": 59, "tokens": 7}, 1, reservations.ErrUnknownMeter,
		},
		{
			"what can't be",
			reservations.Observation{Remaining: reservations.Tokens{"tokens": math.NaN(), "requests": -1}},
			map[string]float64{"requests": 59, "tokens": 600}, 0, reservations.ErrInvalidCharge,
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
