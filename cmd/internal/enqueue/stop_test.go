package enqueue

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/setup/cli"
)

// A batch whose requests fail stops early, says so everywhere, and goes on by the same command: no request is lost, and
// none is sent twice.
func TestMaxFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		upstream := &refusing{next: w.judge}
		upstream.on.Store(true)
		w.work(t, upstream)
		const n = 300
		text := strings.Builder{}
		for i := range n {
			text.WriteString(chatLine("c"+strconv.Itoa(i), "never works "+strconv.Itoa(i)))
		}
		in := write(t, "in.jsonl", text.String())
		c := w.call(t, "batch", in, "--limit", "openai", "--wait", "--max-failures", "2%")
		id := batchOf(t, c)
		if c.code != cli.ExitFailed || !strings.Contains(c.err, "has stopped at 6 failed requests (--max-failures)") ||
			!strings.Contains(c.err, "headway status "+id+" --failed") {
			t.Fatalf("exit %d: %s%s", c.code, c.out, c.err)
		}
		var f figures
		c = w.call(t, "status", id, "--json")
		if err := json.Unmarshal([]byte(c.out), &f); err != nil || f.State != batches.StateCancelled ||
			f.StoppedBy != batches.StopFailures || f.FailuresMost != 6 || f.Failed < 6 || f.Failed > n/2 {
			t.Errorf("%v: %s", err, c.out)
		}
		const why = "stopped at 6 failed requests (--max-failures): `headway batch"
		if c = w.call(t, "status", id); !strings.Contains(c.out, why) || !strings.Contains(c.out, " --max-failures 6`") {
			t.Errorf("status: %s", c.out)
		}
		upstream.on.Store(false)
		if c = w.call(t, "batch", in, "--limit", "openai", "--wait", "--max-failures", "50%"); c.code != cli.ExitFailed ||
			!strings.Contains(c.err, "stopped at 6 failed requests (--max-failures), and goes on now: the failures") ||
			!strings.Contains(c.err, "requests failed; `headway retry") {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		if c = w.call(t, "retry", id, "--failed"); c.code != cli.ExitOK {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		if c = w.call(t, "batch", in, "--limit", "openai", "--wait"); c.code != cli.ExitOK {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		for body, times := range upstream.asked {
			if times > 2 { // once refused, once answered
				t.Errorf("%d calls of %s", times, body)
			}
		}
	})
}

func TestFailuresMost(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"": 0, "1": 1, "20": 20, "5%": 10, "0.1%": 1, "100%": 200,
		"0": -1, "-3": -1, "5.5": -1, "0%": -1, "101%": -1, "%": -1, "many": -1, "NaN%": -1,
	} {
		n, err := failuresMost(text, 200)
		if want < 0 && err == nil || want >= 0 && (err != nil || n != want) {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	}
}
