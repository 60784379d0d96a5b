package register_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/reservations"
)

// What workers publish is what readers get: each setting of a limit, also the ones that are not finite.
func TestMembersHaveTheirLimits(t *testing.T) {
	t.Parallel()
	client, r := open(t)
	full := reservations.Limit{
		Name: "vendor", Settle: reservations.SettleKeep, MaxWait: time.Hour, MaxBlock: time.Minute, Shards: 3,
		OrdinaryShare: .2, Weights: map[string]float64{"acme": 3}, Priorities: map[string]float64{"high": 4},
		Meters: []reservations.Meter{
			{Name: "a", Rate: 1.5, Period: time.Second, Capacity: 30},
			{Name: "b", Rate: 9, Period: 24 * time.Hour, Kind: reservations.KindWindow, Start: 8 * time.Hour},
			{
				Name: "c", Rate: 20, Period: time.Minute, MaxReserved: reservations.None,
				Adaptive: reservations.Adaptive{Max: 50},
			},
			reservations.InFlight(9),
		},
	}
	if err := full.Validate(); err != nil {
		t.Fatal(err)
	}
	many := limit("many", reservations.Meter{Name: "a", Rate: 1, Period: time.Second, Capacity: reservations.None})
	many.Weights = map[string]float64{}
	for i := range 200 {
		many.Weights[strings.Repeat("x", i+1)] = 2
	}
	broken := limit("broken", reservations.PerMinute("a", -1))
	for id, m := range map[string]register.Member{
		"a": {Name: "a:1", Limits: limitsOf(full, many, broken)}, "b": {Name: "b:1", Limits: limitsOf(full, many, broken)},
		"c": {Name: "c:1"},
	} {
		if err := r.Renew(t.Context(), id, m); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := client.Keys(t.Context(), "*:limits:*").Result()
	if err != nil || len(stored) != 1 {
		t.Errorf("%q, %v: both have the same limits", stored, err)
	}
	members, err := r.Members(t.Context())
	if err != nil || len(members) != 3 || len(members[2].Limits) > 0 {
		t.Fatalf("%+v: %v", members, err)
	}
	many.Weights = nil
	for _, m := range members[:2] {
		if want := limitsOf(full, many); !reflect.DeepEqual(m.Limits, want) {
			t.Errorf("%+v, wanted %+v", m.Limits, want)
		}
	}
}

func TestInForceAndDiffering(t *testing.T) {
	t.Parallel()
	minute := reservations.PerMinute
	old, renewed := limit("both", minute("a", 1)), limit("both", minute("a", 2))
	sharded := renewed
	sharded.Shards = 2
	vendor, own := limit("vendor", minute("a", 5)), limit("own", minute("a", 7))
	members := []register.Member{
		{Name: "w:1", Limits: limitsOf(old, vendor)},
		{Name: "w:2", Limits: limitsOf(renewed)},
		{Name: "w:3", Limits: limitsOf(renewed)},
	}
	file := []reservations.Limit{sharded, own}
	all := []reservations.Limit{renewed, own, vendor}
	if got := register.InForce(members, file); !reflect.DeepEqual(got, all) {
		t.Errorf("%+v, wanted %+v", got, all)
	}
	if got := register.InForce(nil, file); !reflect.DeepEqual(got, file) {
		t.Errorf("without workers: %+v", got)
	}
	want := map[string]register.Source{
		"both": {Differs: []string{
			"worker w:1 has a 1/m, at most 1 at once", "headway.yaml has a 2/m, at most 2 at once; shards 2",
		}},
		"vendor": {Place: "in worker w:1, not in headway.yaml"},
		"own":    {Place: `in headway.yaml, but no live worker has limit "own"`},
	}
	if got := register.Sources(members, "headway.yaml", file); !reflect.DeepEqual(got, want) {
		t.Errorf("%q, wanted %q", got, want)
	}
	if got := register.Sources(nil, "headway.yaml", file); len(got) > 0 {
		t.Errorf("without workers: %q", got)
	}
}
