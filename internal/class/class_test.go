package class_test

import (
	"math"
	"testing"

	"github.com/headway-go/headway/internal/class"
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
		{headroom, reservations.Charge{Priority: "bulk", Urgent: true}, class.Urgent, 11 * 0.8 / 0.2},
		{plain, reservations.Charge{Priority: "interactive", Urgent: true}, "", 1},
	} {
		name, weight := class.Of(tc.limit, tc.charge)
		if name != tc.class || math.Abs(weight-tc.weight) > 1e-9 {
			t.Errorf("%+v: %q %v, want %q %v", tc.charge, name, weight, tc.class, tc.weight)
		}
	}
	if l := shared(); class.Weight(l, "acme") != 3 || class.Weight(l, "other") != 1 || class.Weight(l, "") != 1 {
		t.Errorf("weights %v %v %v", class.Weight(l, "acme"), class.Weight(l, "other"), class.Weight(l, ""))
	}
}

func shared() reservations.Limit {
	return reservations.Limit{
		Name: "openai", Meters: []reservations.Meter{reservations.PerSecond("tokens", 100)},
		Weights: map[string]float64{"acme": 3}, Priorities: map[string]float64{"interactive": 9, "batch": 1, "bulk": 1},
	}
}
