package class_test

import (
	"math"
	"testing"

	"github.com/headway-go/headway/internal/line/class"
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

// A task with several charges has a tenant in each limit behind the first one. Its flow is below that, or nothing.
func TestTurnsOf(t *testing.T) {
	t.Parallel()
	tokens := reservations.Tokens{"tokens": 100}
	provider := reservations.Charge{Limit: "openai", Flow: "batch7", Priority: "interactive", Tokens: tokens}
	acme := reservations.Charge{Limit: "tenants", Key: "acme", Flow: "batch7"}
	acme.Shard = 2
	budget := reservations.Charge{Limit: "budget", Key: "k1", Given: &reservations.Limit{}}
	strict := shared()
	strict.IgnoreFlows = true
	for name, tc := range map[string]struct {
		limit   reservations.Limit
		charges []reservations.Charge
		want    class.Turns
	}{
		"one charge": {shared(), []reservations.Charge{provider}, class.Turns{Flow: "batch7", Part: 1, Cost: 1}},
		"a tenant of weight 3": {
			shared(),
			[]reservations.Charge{acme, provider},
			class.Turns{Tenant: "tenants:acme", Flow: "batch7", Part: 1. / 3, Cost: 1},
		},
		"a limit that was given": {
			shared(), []reservations.Charge{budget, provider}, class.Turns{Flow: "batch7", Part: 1, Cost: 1},
		},
		"tenants only": {
			strict, []reservations.Charge{acme, provider}, class.Turns{Tenant: "tenants:acme", Part: 1. / 3, Cost: 1},
		},
	} {
		tc.want.Class, tc.want.Turn = "interactive", 1./9
		if got := class.TurnsOf(tc.limit, tc.charges, provider); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

func shared() reservations.Limit {
	return reservations.Limit{
		Name: "openai", Meters: []reservations.Meter{reservations.PerSecond("tokens", 100)},
		Weights: map[string]float64{"acme": 3}, Priorities: map[string]float64{"interactive": 9, "batch": 1, "bulk": 1},
	}
}
