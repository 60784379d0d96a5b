package state

import (
	"testing"

	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/reservations"
)

// No end is expected of a limit that no live worker has, unless only direct callers wait.
func TestALimitWithoutAWorkerHasNoEnd(t *testing.T) {
	t.Parallel()
	members := []register.Member{{Limits: map[string]reservations.Limit{"other": {}}}}
	for name, c := range map[string]struct {
		limit   string
		callers int
		known   bool
	}{
		"no worker has it": {limit: "api"},
		"a worker has it":  {limit: "other", known: true},
		"callers alone":    {limit: "api", callers: 3, known: true},
	} {
		end := 12.
		b := Bucket{Waiting: 3, EndIn: &end, Queues: map[string]int{waitlist.QueueCallers: c.callers}}
		s := Snapshot{Members: members, Limits: []Limit{{Limit: c.limit, Buckets: []Bucket{b}}}}
		s.endless()
		if got := s.Limits[0].Buckets[0].EndIn != nil; got != c.known {
			t.Errorf("%s: an end is expected: %v", name, got)
		}
	}
}
