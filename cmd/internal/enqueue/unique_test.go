package enqueue

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/headway-go/headway/internal/setup/cli"
)

// A second request with the key of one that waits is refused, and the error names the task that has it.
func TestOneUnique(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, env := environment(t)
		config := write(t, "headway.yaml", "limits: {slow: {meters: {requests: 1/h}}}")
		one := func(args ...string) call {
			always := []string{"enqueue", "hi", "--limit", "slow", "--config", config}
			return callWith(t, server, env, "", append(always, args...)...)
		}
		first := one("--unique", "report 7")
		if first.code != cli.ExitOK {
			t.Fatalf("exit %d: %s", first.code, first.err)
		}
		id := strings.TrimSpace(first.out)
		again := one("--unique", "report 7")
		if again.code != cli.ExitFailed || again.out != "" || !strings.Contains(again.err, id) ||
			!strings.Contains(again.err, `unique key "report 7"`) {
			t.Errorf("again: exit %d: %s%s", again.code, again.out, again.err)
		}
		for _, args := range [][]string{{"--unique", "report 8"}, {"--unique", "report 7", "--queue", "other"}, nil} {
			if c := one(args...); c.code != cli.ExitOK {
				t.Errorf("%v: exit %d: %s", args, c.code, c.err)
			}
		}
		for _, key := range []string{"", "  ", strings.Repeat("k", 501)} {
			if c := one("--unique", key); c.code != cli.ExitUsage ||
				!strings.Contains(c.err, "--unique: a key has 1 to 500 bytes") {
				t.Errorf("key %.5q: exit %d: %s", key, c.code, c.err)
			}
		}
		inspector := server.Inspector()
		if err := inspector.DeleteTask("default", id); err != nil {
			t.Fatal(err)
		}
		if c := one("--unique", "report 7"); c.code != cli.ExitOK {
			t.Errorf("when it has gone: exit %d: %s", c.code, c.err)
		}
	})
}
