package scheduler_test

import (
	"testing"
	"testing/synctest"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// shared is a task of a tenant, which shares a provider with others.
type shared string

func (shared) TaskType() string { return "shared" }

func (s shared) Charges() []reservations.Charge {
	return []reservations.Charge{
		{Limit: "tenant", Key: string(s), Tokens: reservations.Tokens{"requests": 1}},
		{Limit: "openai", Tokens: reservations.Tokens{"requests": 1}},
	}
}

// A task waits for one bucket: its tenant's if a task of the batch must wait there, else the provider's. It holds no
// tokens of another bucket.
func TestReservedInTwoBuckets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tenant := perSecond(0.01, 2)
		tenant.Name = "tenant"
		s := newScheduler(t, inMemory(t), limiter(t, store(), tenant, perSecond(0.1, 1)), exact())
		infos, err := s.EnqueueMany(t.Context(), []tasks.Args{shared("a"), shared("a"), shared("a"), shared("b")})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []struct {
			bucket string
			rank   int
		}{{"tenant:a", 1}, {"tenant:a", 2}, {"tenant:a", 3}, {"openai", 1}} {
			e, err := s.Explain(t.Context(), infos[i].Queue, infos[i].ID)
			if err != nil || e.Waits == nil {
				t.Fatalf("task %d: %+v, %v", i, e, err)
			}
			if e.Waits.Bucket != want.bucket || e.Waits.Position != want.rank || len(e.Waits.Others) != 0 {
				t.Errorf("task %d waits as %+v, want %+v", i, e.Waits, want)
			}
		}
	})
}
