package enqueue

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/setup/cli"
)

// opened opens a batch with that many requests. Its results are that old, and each used a hundredth of its reserved
// tokens.
func (w *world) opened(t *testing.T, requests int, ago ...time.Duration) (id string) {
	t.Helper()
	store, id := w.store(t), "0123456789abcdef"
	if _, _, err := store.Open(t.Context(), batches.Batch{
		ID: id, Lines: requests, Requests: requests, Limit: "openai",
		Queue: "default",
	}); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	results := make([]batches.Result, len(ago))
	for i, d := range ago {
		results[i] = batches.Result{
			Batch: id, Line: i + 1, Finished: now.Add(-d),
			Response: &batches.Response{StatusCode: 200}, Usage: batches.Usage{Reserved: 1000, Used: 10},
		}
	}
	if err := errors.Join(store.FinishMany(t.Context(), results)...); err != nil {
		t.Fatal(err)
	}
	return id
}

// Without a worker the command prints that instead of an end.
func TestNothingRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.opened(t, 100, 20*time.Second, 19*time.Second, 18*time.Second, 17*time.Second, 16*time.Second,
			15*time.Second)
		for _, args := range [][]string{{"status"}, {"status", id}} {
			if c := w.call(t, args...); c.code != cli.ExitOK ||
				!strings.Contains(c.out, `no worker takes from queue default`) || strings.Contains(c.out, "left") ||
				strings.Contains(c.out, "take long") {
				t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
			}
		}
		w.work(t, nil)
		// asynq lists a queue after its first task
		if c := w.call(t, "enqueue", "hi", "--limit", "openai"); c.code != cli.ExitOK {
			t.Fatalf("exit %d: %s", c.code, c.err)
		}
		quiet := regexp.MustCompile(`nothing has ended for 1[5-9]s`)
		if c := w.call(t, "status", id); !quiet.MatchString(c.out) || strings.Contains(c.out, "no worker") {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		inspector := w.redis.Inspector()
		if err := inspector.PauseQueue("default"); err != nil {
			t.Fatal(err)
		}
		c := w.call(t, "status", id, "--json")
		var f figures
		if err := json.Unmarshal([]byte(c.out), &f); err != nil || !f.Paused || f.Workers == nil || *f.Workers != 1 ||
			f.Left != nil {
			t.Errorf("%v: %s%s", err, c.out, c.err)
		}
		if c = w.call(t, "status"); !strings.Contains(c.out, `queue default is paused`) {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
	})
}

// After a pause the estimated end counts only requests that ended since.
func TestEndAfterAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.work(t, nil)
		var ago []time.Duration
		for i := range 200 { // 10 a second for 20 s, and before a pause as fast for 10 s
			ago = append(ago, time.Duration(i)*100*time.Millisecond)
		}
		for i := range 100 {
			ago = append(ago, 45*time.Second+time.Duration(i)*100*time.Millisecond)
		}
		w.opened(t, 900, ago...)
		c := w.call(t, "status", "--json")
		var f figures
		if err := json.Unmarshal([]byte(c.out), &f); err != nil || f.Left == nil || f.LeftBy != byMeasure || *f.Left < 57 ||
			*f.Left > 80 {
			t.Errorf("%v: %s%s", err, c.out, c.err)
		}
	})
}

// With settle: keep the reserved tokens count.
func TestEndWhereEstimatesAreKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for settle, want := range map[string]struct {
			taken float64 // tokens in a second
			left  float64
			by    string
		}{"adjust": {100, 80, byMeasure}, "keep": {10_000, 160, byLimit}} {
			w := newWorld(t)
			w.config = write(t, "headway.yaml",
				"limits: {openai: {settle: "+settle+", meters: {requests: 100/s, tokens: 5000/s}}}")
			var ago []time.Duration
			for i := range 200 { // 10 a second for 20 s
				ago = append(ago, time.Duration(i)*100*time.Millisecond)
			}
			w.work(t, nil)
			id := w.opened(t, 1000, ago...)
			c := w.call(t, "status", id, "--json")
			var f figures
			if err := json.Unmarshal([]byte(c.out), &f); err != nil || len(f.Rates) != 2 || f.Left == nil {
				t.Fatalf("%s: %v: %s%s", settle, err, c.out, c.err)
			}
			if taken := f.Rates[1].Taken; taken < 0.7*want.taken || taken > 1.1*want.taken || f.LeftBy != want.by ||
				*f.Left < 0.95*want.left || *f.Left > 1.4*want.left {
				t.Errorf("%s: takes %v a second, %s %v s: %s", settle, taken, f.LeftBy, *f.Left, c.out)
			}
		}
	})
}

// A command that waits for a batch prints that no worker runs.
func TestWaitWithoutAWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		in := write(t, "in.jsonl", chats(3))
		progress := &lineSignal{line: "no worker takes from queue", call: sync.OnceFunc(func() { w.work(t, nil) })}
		code := cli.Run(w.context(t), rootCommand, []string{
			"batch", in, "--limit", "openai", "--wait", "--config",
			w.config,
		},
			cli.Environment{Getenv: w.getenv, Out: progress, Err: progress})
		if code != cli.ExitOK || !strings.Contains(progress.text.String(), "all have ended") {
			t.Errorf("exit %d: %s", code, progress.text.String())
		}
	})
}
