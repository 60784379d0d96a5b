package enqueue

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/headway-go/headway/internal/setup/cli"
)

// With --wait, `headway enqueue` prints the text of the answer, or why there is none.
func TestEnqueueWaitsForTheAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		upstream := &refusing{next: w.judge}
		upstream.on.Store(true)
		w.work(t, upstream)
		c := w.call(t, "enqueue", "hi", "--limit", "openai", "--wait")
		if c.code != cli.ExitOK || strings.Contains(c.out, "choices") || strings.TrimSpace(c.out) == "" {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		c = w.call(t, "enqueue", "never works", "--limit", "openai", "--wait")
		if c.code != cli.ExitFailed || !strings.Contains(c.err, "no such thing") {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		for _, args := range [][]string{{"--wait", "--json"}, {"--wait", "--keep", "0s"}} {
			c = w.call(t, append([]string{"enqueue", "hi", "--limit", "openai"}, args...)...)
			if c.code != cli.ExitUsage || !strings.Contains(c.err, "leave one out") {
				t.Errorf("%v: exit %d: %s%s", args, c.code, c.out, c.err)
			}
		}
	})
}

// `headway results` does not replace the file of the requests by their answers.
func TestResultsOverTheRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		requests := line("a", 5) + "\n" + line("b", 5) + "\n"
		in := write(t, "in.jsonl", requests)
		c := w.call(t, "batch", in, "--limit", "openai", "--json")
		var sent struct{ Batch string }
		if err := json.Unmarshal([]byte(c.out), &sent); err != nil || c.code != cli.ExitOK {
			t.Fatalf("exit %d, %v: %s", c.code, err, c.err)
		}
		id := sent.Batch
		c = w.call(t, "results", id, "--out", in)
		if c.code != cli.ExitUsage || !strings.Contains(c.err, "has the requests of this batch") {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		if text, err := os.ReadFile(in); err != nil || string(text) != requests {
			t.Errorf("%v: %s", err, text)
		}
		if c = w.call(t, "results", id, "--out", filepath.Join(t.TempDir(), "out.jsonl")); c.code != cli.ExitOK {
			t.Errorf("exit %d: %s", c.code, c.err)
		}
	})
}
