package dispatcher

import (
	"context"
	"fmt"
	"time"

	"github.com/headway-go/headway/internal/calls/coalesce"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/class"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/reservations"
)

// gatherFor is how long a task that was delivered waits for other tasks to share a script with.
const gatherFor = 500 * time.Microsecond

// arriver says what delivered tasks and direct callers hold in the waitlists.
type arriver struct {
	*shared

	arrivals arrivals // of tasks
	calls    arrivals // of direct callers, which gather only while a script is under way
}

// arrivals share the scripts that look for a place.
type arrivals = coalesce.Group[struct{}, waitlist.Arrival, waitlist.Arrived]

func newArriver(s *shared) *arriver {
	a := &arriver{shared: s}
	a.arrivals.Gather = gatherFor
	a.arrivals.Call = func(ctx context.Context, _ struct{}, all []waitlist.Arrival) ([]waitlist.Arrived, error) {
		return s.list.Arrive(ctx, all)
	}
	a.calls.Call = a.arrivals.Call
	return a
}

// Start is the inside of a reservations.Grant: a task or a call on its way to its buckets.
type Start interface {
	Charges() []reservations.Charge
	Outcomes() []reservations.Outcome
	SetCharge(i int, c reservations.Charge, behind bool)
}

// Claim sets what the task holds in the buckets of its charges, and where it has to wait behind other tasks.
func (*arriver) Claim(turn Turn, start Start) {
	for i, c := range turn.Charges {
		behind := turn.Behind(c)
		c.Held = turn.Holds(c)
		start.SetCharge(i, c, behind)
	}
}

// before is the class behind whose tasks a new task of the charge waits. Empty means all. An urgent task in a limit
// with headroom waits behind urgent ones alone.
func (s *arriver) before(ctx context.Context, c reservations.Charge) string {
	if !c.Urgent || s.limiter == nil {
		return ""
	}
	limit, err := inside.Of(s.limiter).LimitFor(ctx, c)
	if name, _ := class.Of(limit, c); err == nil && name == class.Urgent {
		return name
	}
	return ""
}

// Arrive returns what a delivered task holds. Call it for each delivery of a task with charges, before any bucket
// is asked. On an error of Redis the Turn is that of a new task with no waitlist: to go on with it costs the task its
// place, and never a limit.
func (s *arriver) Arrive(ctx context.Context, t waitlist.Task, charges []reservations.Charge) (Turn, error) {
	if s.limiter != nil {
		charges = inside.Of(s.limiter).Permitted(ctx, charges)
	}
	return s.arrive(ctx, &s.arrivals, t, charges)
}

// arrive is Arrive for permitted charges, in a script that is shared with others.
func (s *arriver) arrive(
	ctx context.Context, others *arrivals, t waitlist.Task, charges []reservations.Charge,
) (Turn, error) {
	var turn Turn
	arrival := waitlist.Arrival{Task: t}
	for _, c := range charges {
		if s.limiter != nil {
			c = inside.Of(s.limiter).Choose(c)
		}
		turn.Charges = append(turn.Charges, c)
	}
	for _, c := range turn.Charges {
		arrival.Buckets = append(arrival.Buckets, c.Bucket().String())
		arrival.Classes = append(arrival.Classes, s.before(ctx, c))
	}
	all, err := others.Do(ctx, struct{}{}, arrival)
	if err != nil {
		return turn, fmt.Errorf("look for %s in the waitlists: %w", t, err)
	}
	turn.fill(all[0])
	return turn, nil
}
