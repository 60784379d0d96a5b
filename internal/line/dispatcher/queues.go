package dispatcher

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/line/waitlist"
)

// checkQueues finds out from which queues nothing is taken: paused ones, and ones without a worker. It asks for the
// queues of tasks in sight of a look, once a second: before the next look if there was such a queue, which the look
// then skips. A promoted task of such a queue would hold tokens that others can use.
func (d *promoter) checkQueues(ctx context.Context, sight []waitlist.Due) error {
	if sight == nil && len(d.paused) == 0 && time.Since(d.checked) >= pausedEvery {
		d.seen = nil // an idle fleet asks for none
	}
	queues := map[string]bool{}
	maps.Copy(queues, d.seen)
	for _, due := range sight {
		for _, w := range due.Heads {
			queues[w.Queue] = true
		}
	}
	delete(queues, waitlist.QueueCallers)
	if len(queues) == len(d.seen) && time.Since(d.checked) < pausedEvery || len(queues) == 0 {
		return nil
	}
	names := slices.Collect(maps.Keys(queues))
	paused, err := d.s.queues.Paused(ctx, names)
	if err != nil {
		return err
	}
	unserved, live, err := d.s.queues.Unserved(names)
	if err != nil {
		return err
	}
	if live > 0 { // else no queue could use the tokens
		maps.Copy(paused, unserved)
	}
	maps.DeleteFunc(paused, func(_ string, is bool) bool { return !is })
	d.paused, d.checked, d.seen = paused, time.Now(), queues
	return nil
}
