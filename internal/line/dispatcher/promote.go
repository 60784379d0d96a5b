package dispatcher

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/line/waitlist"
)

// promote plans every waitlist that is due, and promotes.
func (d *promoter) promote(ctx context.Context, look waitlist.Look) (time.Duration, error) {
	rest := look.Rest
	if len(look.Due) == 0 {
		return rest, nil
	}
	plans := make([]waitlist.Plan, 0, len(look.Due))
	rank := map[waitlist.Task]int{} // below zero for urgent tasks
	paused := func(w waitlist.Waiting) bool { return d.paused[w.Queue] }
	for _, due := range look.Due {
		read := len(due.Heads)
		due.Heads = slices.DeleteFunc(due.Heads, paused)
		due.Promoted = slices.DeleteFunc(due.Promoted, paused)
		p, err := plan(due, look.Now, d.s.delivery)
		if err != nil {
			d.s.log.WarnContext(ctx, "state of a bucket not readable", slog.Any("error", err))
		}
		if len(due.Heads) == 0 && len(d.paused) > 0 && (read == 0 || !due.More) {
			p.Next = pausedEvery
		}
		d.reads.learn(due, len(p.Promote))
		for _, w := range due.Heads {
			if w.Urgent {
				rank[w.Task] = -1
			}
		}
		plans = append(plans, p)
		if p.Next > 0 {
			rest = min(rest, p.Next)
		}
	}
	promoted, onDuty, err := d.s.list.Promote(ctx, d.id, plans)
	if err != nil || !onDuty {
		return 0, err
	}
	slices.SortStableFunc(promoted, func(a, b waitlist.Task) int { return cmp.Compare(rank[a], rank[b]) })
	if d.s.Promoted != nil {
		d.s.Promoted(promoted)
	}
	d.deliver(promoted, rank)
	return rest, nil
}
