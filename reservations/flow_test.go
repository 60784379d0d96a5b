package reservations_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
)

func shared() reservations.Limit {
	return reservations.Limit{
		Name: "openai", Meters: []reservations.Meter{reservations.PerSecond("tokens", 100)},
		Weights: map[string]float64{"acme": 3}, Priorities: map[string]float64{"interactive": 9, "batch": 1, "bulk": 1},
	}
}

func TestWeightsThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		weights, priorities map[string]float64
		want                []string
	}{
		"bounds": {weights: map[string]float64{"a": reservations.MinWeight, "b c": reservations.MaxWeight}},
		"zero": {
			weights: map[string]float64{"acme": 0},
			want:    []string{"weights.acme: weight 0 must be from 0.001 to 1000"},
		},
		"negative": {
			priorities: map[string]float64{"low": -1},
			want:       []string{"priorities.low: weight -1 must be from"},
		},
		"a million": {
			weights: map[string]float64{"acme": 1e6},
			want:    []string{"weights.acme: weight 1e+06 must be from"},
		},
		"not a number": {weights: map[string]float64{"acme": math.NaN()}, want: []string{"weights.acme: weight NaN"}},
		"infinite":     {priorities: map[string]float64{"low": math.Inf(1)}, want: []string{"priorities.low: weight +Inf"}},
		"no name":      {weights: map[string]float64{"": 1}, want: []string{"weights: a flow must have a name"}},
		"10 kB": {
			weights: map[string]float64{strings.Repeat("x", 10000): 1},
			want:    []string{"10000 bytes: must be at most 128"},
		},
		"control": {
			weights: map[string]float64{"a\nb": 1},
			want:    []string{`flow "a\nb" must hold no control characters`},
		},
		"priority blank": {priorities: map[string]float64{"a b": 1}, want: []string{`name "a b" must be 1 to 64 letters`}},
		"all faults":     {map[string]float64{"a": 0}, map[string]float64{"b": 0}, []string{"weights.a: ", "priorities.b: "}},
	} {
		limit := shared()
		limit.Weights, limit.Priorities = tc.weights, tc.priorities
		err := limit.Validate()
		if (err == nil) != (tc.want == nil) || err != nil &&
			(!errors.Is(err, reservations.ErrInvalidLimit) || len(err.Error()) > 300) {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range tc.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
	limit := shared()
	for i := range reservations.MaxPriorities {
		limit.Priorities[strings.Repeat("p", i+1)] = 1
	}
	if err := limit.Validate(); err == nil || !strings.Contains(err.Error(), "19 priorities must be at most 16") {
		t.Error(err)
	}
}

func TestFlowsThatAreRefused(t *testing.T) {
	t.Parallel()
	limiter, err := reservations.New(memstore.New(), []reservations.Limit{shared()}, reservations.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]reservations.Charge{
		"10000 bytes: must be at most 128":                    {Flow: strings.Repeat("x", 10000)},
		`flow "\x00" must hold no control characters`:         {Flow: "\x00"},
		`flow "\u202e" must hold no control characters`:       {Flow: "\u202e"},
		`flow "a\u2028b" must hold no control characters`:     {Flow: "a\u2028b"},
		`flow "\xff" must be valid UTF-8`:                     {Flow: "\xff"},
		`there are "batch", "bulk", "interactive"`:            {Priority: "urgent"},
		`priority "a b" must be 1 to 64 letters`:              {Priority: "a b"},
		`priority "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx`: {Priority: strings.Repeat("x", 10000)},
	} {
		c.Limit, c.Tokens = "openai", reservations.Tokens{"tokens": 0}
		err := limiter.Validate(c)
		if !errors.Is(err, reservations.ErrInvalidCharge) || !strings.Contains(err.Error(), want) || len(err.Error()) > 300 {
			t.Errorf("%v, want %q", err, want)
		}
		if _, err := limiter.Ask(t.Context(), c); (err == nil) != (c.Priority == "urgent") {
			t.Errorf("%s: a queued task starts: %v", want, err) // an unknown priority does not cost a queued task
		}
	}
	for _, c := range []reservations.Charge{{Flow: strings.Repeat("é", 64)}, {Priority: "bulk"}, {Flow: "user 7"}, {}} {
		c.Limit, c.Tokens = "openai", reservations.Tokens{"tokens": 0}
		if err := limiter.Validate(c); err != nil {
			t.Error(err)
		}
	}
}

// A task may use a priority, or be urgent, if the limit allows that to its tenant: by the name or key of its bucket.
func TestPermitted(t *testing.T) {
	t.Parallel()
	limit := shared()
	limit.Allow = map[string][]string{"interactive": {"acme"}, "urgent": {"tenants:acme", "other:b"}}
	tenants := shared()
	tenants.Name = "tenants"
	limiter, err := reservations.New(memstore.New(), []reservations.Limit{limit, tenants}, reservations.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for tenant, allowed := range map[string]bool{"acme": true, "b": false, "": false} {
		for _, priority := range []string{"interactive", "bulk"} {
			c := reservations.Charge{Limit: "openai", Urgent: true, Priority: priority}
			charges := []reservations.Charge{c}
			if tenant != "" {
				charges = []reservations.Charge{{Limit: "tenants", Key: tenant, Priority: priority}, c}
			}
			got := limiter.Permitted(t.Context(), charges)
			last := got[len(got)-1]
			if want := allowed || priority == "bulk"; last.Urgent != allowed || (last.Priority == priority) != want {
				t.Errorf("tenant %q with %s: %+v", tenant, priority, last)
			}
			if charges[len(charges)-1].Priority != priority {
				t.Error("the charges of the caller have changed")
			}
		}
	}
	limit.Allow["unknown"] = nil
	if err := limit.Validate(); err == nil || !strings.Contains(err.Error(), `allow: "unknown" is neither "urgent" nor`) {
		t.Error(err)
	}
}
