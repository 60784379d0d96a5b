package reservations_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/headway-go/headway/reservations"
)

// A call claims to be urgent, which its limit does not allow to its tenant. It does not start in the headroom,
// whichever limit it is, and however it asks.
func TestUrgencyOfAnotherTenant(t *testing.T) {
	t.Parallel()
	limit := per("pool", 10)
	limit.Meters[0].Capacity, limit.Meters[0].Headroom = 10, 5
	limit.Allow = map[string][]string{"urgent": {"vip"}}
	tenants := per("tenants", 1000)
	tenants.Meters[0].Capacity = 1000
	known := limit
	known.Name = "resolved"
	resolve := func(_ context.Context, name, _ string) (reservations.Limit, error) {
		if name != "resolved" {
			return reservations.Limit{}, reservations.ErrUnknownLimit
		}
		return known, nil
	}
	for name, tc := range map[string]struct {
		limit  string
		given  *reservations.Limit
		tenant string
		first  bool // the limit has been resolved before
		want   int
	}{
		"configured":           {limit: "pool", tenant: "rogue", want: 5},
		"its own tenant":       {limit: "pool", tenant: "vip", want: 10},
		"no tenant":            {limit: "pool", want: 5},
		"resolved before":      {limit: "resolved", tenant: "rogue", first: true, want: 5},
		"resolved for it":      {limit: "resolved", tenant: "rogue", want: 5},
		"resolved for the vip": {limit: "resolved", tenant: "vip", want: 10},
		"given by the program": {limit: "given", given: &limit, tenant: "rogue", want: 5},
	} {
		for how, start := range map[string]func(context.Context, *reservations.Limiter, []reservations.Charge) bool{
			"Allow": func(ctx context.Context, l *reservations.Limiter, charges []reservations.Charge) bool {
				g, err := l.Allow(ctx, charges...)
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				return err == nil && g.Started()
			},
			"Wait": func(ctx context.Context, l *reservations.Limiter, charges []reservations.Charge) bool {
				ctx, cancel := context.WithTimeout(ctx, 1) //gate:ok called in a bubble
				defer cancel()
				_, err := l.Wait(ctx, charges...)
				return err == nil
			},
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					l, _ := virtual(t, reservations.Config{Resolve: resolve}, limit, tenants)
					charge := reservations.Charge{
						Limit: tc.limit, Given: tc.given, Urgent: true, Tokens: reservations.Tokens{"tokens": 1},
					}
					if tc.first {
						if _, err := l.LimitFor(t.Context(), charge); err != nil {
							t.Fatal(err)
						}
					}
					charges := []reservations.Charge{charge}
					if tc.tenant != "" {
						charges = []reservations.Charge{
							{Limit: "tenants", Key: tc.tenant, Tokens: reservations.Tokens{"tokens": 1}}, charge,
						}
					}
					n := 0
					for n < 20 && start(t.Context(), l, charges) {
						n++
					}
					if n != tc.want {
						t.Errorf("%d started at once, want %d", n, tc.want)
					}
				})
			})
		}
	}
}
