package enqueue

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/reservations"
)

// The command reserves tokens by overrides, like the workers.
func TestReserveGoesByOverrides(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, env := environment(t)
		buckets := (&world{redis: server, env: env}).buckets(t)
		for _, o := range []reservations.Override{
			{Limit: "openai", Meter: "requests", Rate: 1, Period: time.Hour},
			{Limit: "gone", Meter: "requests", Rate: 1, Period: time.Hour},
		} {
			if err := buckets.SetOverride(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		batch := write(t, "batch.jsonl", line("a", 5)+"\n"+line("b", 5)+"\n"+line("c", 5))
		c := callWith(t, server, env, "", "batch", batch, "--limit", "openai", "--config", repositoryConfig)
		if c.code != cli.ExitOK || !strings.Contains(c.err, `warning: override gone.requests`) {
			t.Fatalf("exit %d: %s%s", c.code, c.out, c.err)
		}
		inspector := server.Inspector()
		waiting, err := inspector.ListScheduledTasks("default")
		if err != nil || len(waiting) != 3 {
			t.Fatalf("%d tasks, %v", len(waiting), err)
		}
		if last := time.Until(waiting[2].NextProcessAt); last < 100*time.Minute {
			t.Errorf("the last task waits %v, by one an hour it is two hours", last)
		}
	})
}
