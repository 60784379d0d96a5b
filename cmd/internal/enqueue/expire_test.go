package enqueue

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/headway-go/headway/internal/setup/cli"
)

// Requests that would start after --start-by are not enqueued, and get a result at once.
func TestBatchStartBy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, env := environment(t)
		config := write(t, "headway.yaml", "limits: {slow: {meters: {requests: {rate: 1/h, capacity: 2}}}}")
		in := write(t, "batch.jsonl", line("a", 5)+"\n"+line("b", 5)+"\n"+line("c", 5)+"\n"+line("d", 5))
		args := []string{"batch", in, "--limit", "slow", "--config", config, "--start-by", "10m"}
		for i := range 2 { // the second time, expired requests have ended
			c := callWith(t, server, env, "", args...)
			if c.code != cli.ExitOK || i == 0 != strings.Contains(c.out, "; 2 expired") {
				t.Fatalf("exit %d: %s%s", c.code, c.out, c.err)
			}
			if i == 1 && !strings.Contains(c.out, "2 already ended") {
				t.Errorf("again: %s", c.out)
			}
		}
		inspector := server.Inspector()
		if all, err := inspector.ListScheduledTasks("default"); err != nil || len(all) != 2 {
			t.Errorf("%d tasks were enqueued, %v", len(all), err)
		}
		id := strings.TrimSuffix(strings.Fields(callWith(t, server, env, "", args...).out)[1], ":")
		c := callWith(t, server, env, "", "results", id, "--errors", "-", "--config", config)
		if strings.Count(c.out, `"batch_expired"`) != 2 {
			t.Errorf("results: exit %d: %s%s", c.code, c.out, c.err)
		}
		c = callWith(t, server, env, "", "status", id, "--config", config)
		if !strings.Contains(c.out, "last error, of 2 requests: batch_expired: ") {
			t.Errorf("status: exit %d: %s%s", c.code, c.out, c.err)
		}
		for _, by := range []string{"-1m", "2020-01-01T00:00:00Z", "tomorrow"} {
			c := callWith(t, server, env, "", "enqueue", "hi", "--limit", "slow", "--config", config, "--start-by", by)
			if c.code == cli.ExitOK || !strings.Contains(c.err, "start") {
				t.Errorf("%s: exit %d: %s%s", by, c.code, c.out, c.err)
			}
		}
	})
}
