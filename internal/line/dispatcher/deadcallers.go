package dispatcher

import (
	"context"
	"maps"
	"slices"

	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/reservations"
)

// dropDead takes the callers of dead processes out of what is planned, and has them leave in the background, with their
// reservations.
func (d *promoter) dropDead(ctx context.Context, look waitlist.Look) error {
	seen := map[string]bool{}
	for _, due := range look.Due {
		for _, some := range [][]waitlist.Waiting{due.Promoted, due.Heads} {
			for _, w := range some {
				if process, _, ok := w.Process(); ok {
					seen[process] = true
				}
			}
		}
	}
	if len(seen) == 0 {
		return nil
	}
	dead, err := d.s.list.Dead(ctx, slices.Collect(maps.Keys(seen)))
	if err != nil || len(dead) == 0 {
		return err
	}
	var gone []waitlist.Task
	var charges [][]reservations.Charge
	for i := range look.Due {
		due := &look.Due[i]
		at, _ := reservations.ParseBucket(due.Bucket) // a bad one is refused by the release
		drop := func(w waitlist.Waiting) bool {
			process, _, _ := w.Process()
			if dead[process] {
				held := ChargeOf(at)
				held.Tokens = w.Tokens
				gone, charges = append(gone, w.Task), append(charges, []reservations.Charge{held})
			}
			return dead[process]
		}
		due.Heads, due.Promoted = slices.DeleteFunc(due.Heads, drop), slices.DeleteFunc(due.Promoted, drop)
	}
	d.s.after(ctx, "caller of a dead process still in a waitlist", func(ctx context.Context) error {
		return d.s.LeaveAll(ctx, gone, charges)
	})
	return nil
}
