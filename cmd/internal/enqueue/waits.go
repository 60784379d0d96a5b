package enqueue

import (
	"context"
	"fmt"

	"github.com/headway-go/headway/internal/products/explained"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/state"
)

// waits are the buckets for which tasks wait, a line each: tasks of batches, and all others. Then come the problems of
// the fleet, as the first page has them.
func (s services) waits(ctx context.Context) (lines []string, err error) {
	fleet := s.Reader().Look(ctx, s.Queue, state.WaitlistsMost)
	for _, b := range fleet.Buckets() {
		if b.Waiting == 0 {
			continue
		}
		text := fmt.Sprintf("%s for limit %s", cli.Plural(b.Waiting, "task waits", "tasks wait"), cli.Line(b.Bucket))
		if b.EndIn != nil {
			text += ", the last is expected to start in " + cli.Seconds(*b.EndIn)
		}
		lines = append(lines, text)
	}
	for _, p := range state.Problems(fleet) {
		if p.Severity != state.News && p.Kind != state.KindUnread {
			what, remedy := explained.Problem(p)
			lines = append(lines, cli.Line(what+" "+remedy))
		}
	}
	return lines, fleet.Fault()
}
