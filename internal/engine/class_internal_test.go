package engine

import (
	"math"
	"testing"

	"github.com/headway-go/headway/reservations"
)

// An unknown priority is the lowest one, and of two that are equal the first by name. Urgent tasks leave the ordinary
// share to all priorities together, and a limit without priorities has one class.
func TestClass(t *testing.T) {
	t.Parallel()
	headroom := shared()
	headroom.Meters[0].Headroom, headroom.OrdinaryShare = 20, 0.2
	plain := shared()
	plain.Priorities = nil
	for _, tc := range []struct {
		limit  reservations.Limit
		charge reservations.Charge
		class  string
		weight float64
	}{
		{shared(), reservations.Charge{Priority: "interactive"}, "interactive", 9},
		{shared(), reservations.Charge{Priority: "gone", Urgent: true}, "batch", 1},
		{shared(), reservations.Charge{}, "batch", 1},
		{headroom, reservations.Charge{Priority: "bulk"}, "bulk", 1},
		{headroom, reservations.Charge{Priority: "bulk", Urgent: true}, ClassUrgent, 11 * 0.8 / 0.2},
		{plain, reservations.Charge{Priority: "interactive", Urgent: true}, "", 1},
	} {
		class, weight := class(tc.limit, tc.charge)
		if class != tc.class || math.Abs(weight-tc.weight) > 1e-9 {
			t.Errorf("%+v: %q %v, want %q %v", tc.charge, class, weight, tc.class, tc.weight)
		}
	}
	if l := shared(); Weight(l, "acme") != 3 || Weight(l, "other") != 1 || Weight(l, "") != 1 {
		t.Errorf("weights %v %v %v", Weight(l, "acme"), Weight(l, "other"), Weight(l, ""))
	}
}

func shared() reservations.Limit {
	return reservations.Limit{
		Name: "openai", Meters: []reservations.Meter{reservations.PerSecond("tokens", 100)},
		Weights: map[string]float64{"acme": 3}, Priorities: map[string]float64{"interactive": 9, "batch": 1, "bulk": 1},
	}
}
