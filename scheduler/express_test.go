package scheduler_test

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
)

// person is a call that somebody waits for.
type person struct{ call }

func (p person) Charges() []reservations.Charge {
	charges := p.call.Charges()
	charges[0].Urgent = true
	return charges
}

// Ordinary and urgent tasks that are reserved in one batch stand in two lines.
func TestReservedUrgentTasksComeBeforeABacklog(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		limit := perSecond(20, 10)
		limit.Meters[0].Headroom = 5
		s := newScheduler(t, client, limiter(t, store(), limit), exact())
		start(t, s)
		var args []tasks.Args
		for range 12 {
			args = append(args, openai("batch"))
		}
		args = slices.Insert(args, 6, tasks.Args(person{openai("person")}), tasks.Args(person{openai("person")}))
		infos, err := s.EnqueueMany(t.Context(), args, scheduler.Reserved())
		if err != nil {
			t.Fatal(err)
		}
		first := infos[6].NextProcessAt
		if wait := time.Until(first); wait > 100*time.Millisecond || !infos[7].NextProcessAt.Before(infos[13].NextProcessAt) {
			t.Errorf("a person is served in %v, the last of the batch at %v", wait, infos[13].NextProcessAt)
		}
		lines := client.Keys(t.Context(), "headway:{line}:clock:*").Val()
		if slices.Sort(lines); len(lines) != 2 || lines[1] != lines[0]+"!" {
			t.Errorf("the lines are %q", lines)
		}
	})
}
