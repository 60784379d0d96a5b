package scheduler_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/line/waitlist"
)

// A task that waits for its limit and that no live worker can serve says both.
func TestExplainWhatNoWorkerHas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := inMemory(t)
		s := newScheduler(t, client, limiter(t, store(), perSecond(1, 1)), exact())
		info, err := s.Enqueue(t.Context(), openai("a"))
		if err != nil {
			t.Fatal(err)
		}
		task := waitlist.Task{Queue: info.Queue, ID: info.ID}
		e, err := s.Explain(t.Context(), task.Queue, task.ID)
		if err != nil || e.Lacking != "" {
			t.Errorf("without a live worker: %q, %v", e.Lacking, err)
		}
		member := register.Member{Name: "w:1", Types: []string{"other"}}
		if err = register.New(client).Renew(t.Context(), "w", member); err != nil {
			t.Fatal(err)
		}
		e, err = s.Explain(t.Context(), task.Queue, task.ID)
		want := `; no live worker has handler for task type "` + e.Type + `": start a worker that has it.`
		if err != nil || !strings.HasSuffix(e.Summary(), want) {
			t.Errorf("%q, want %q, %v", e.Summary(), want, err)
		}
	})
}
