package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/longtest"
)

// Tasks that must start within some seconds wait for a slow limit. The dispatchers that would end them are killed
// before and during that. Each task either starts in time or ends as expired, once.
//
//nolint:paralleltest // kills processes by the clock: it has the machine for itself
func TestExpiredOnceWhenDispatchersAreKilled(t *testing.T) {
	longtest.Only(t, 140*time.Second)
	const tasks, within = 200, 15 * time.Second
	s := setting{
		limit:    "{meters: {requests: {rate: 3/s, capacity: 5}}}",
		provider: []string{"-requests-rate=3", "-requests-capacity=5", "-min-latency=1ms", "-max-latency=2ms"},
	}
	w := &dispatcherWorld{world: newWorld(t, s), tasks: tasks}
	w.program = programPlain
	w.start(t, fleet)
	w.awaitWorkers(t)
	by := time.Now().Add(within)
	batch := w.enqueue(t, smallChats(1, tasks), "--start-by", by.UTC().Format(time.RFC3339Nano))
	for _, before := range []time.Duration{5 * time.Second, 500 * time.Millisecond} {
		if wait := time.Until(by.Add(-before)); wait > 0 {
			pass(t, wait)
		}
		id, worker := w.duty(t)
		w.workers[worker].kill()
		w.start(t, 1)
		w.awaitOther(t, id)
	}
	await(t, "all tasks have ended", func() (bool, string) { // some ran in a killed worker
		i := w.info(t)
		return i.Completed+i.Archived == tasks, describe(i)
	})
	archived := w.info(t).Archived
	folder := t.TempDir()
	out, errs := filepath.Join(folder, "out.jsonl"), filepath.Join(folder, "errors.jsonl")
	if r := command(t, "headway", w.env(w.redis.URL()), "", "results", batch, "--out", out, "--errors", errs, "--config",
		w.config); r.code > 1 {
		t.Fatalf("results: exit %d: %s%s", r.code, r.out, r.err)
	}
	seen, expired := map[string]int{}, 0
	for file, bad := range map[string]bool{out: false, errs: true} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var l answerLine
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatal(err)
			}
			seen[l.CustomID]++
			if bad {
				expired++
				if !strings.Contains(line, "batch_expired") {
					t.Errorf("failed, and not as expired: %s", line)
				}
			}
		}
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s has %d results", id, n)
		}
	}
	listed := command(t, "headway", w.env(w.redis.URL()), "", "dead", "list", "--json", "--limit", "0")
	dead := strings.Count(listed.out, `"expired"`)
	starts := w.report(t).Starts
	t.Logf("%d started, %d expired, %d archived, %d dead tasks", len(starts), expired, archived, dead)
	if len(seen) != tasks || expired != archived || expired < tasks/4 || len(starts)+expired < tasks {
		t.Errorf("%d tasks have results", len(seen))
	}
	if last := w.report(t).LastStart; last.After(by.Add(time.Second)) && len(starts)+expired == tasks {
		t.Errorf("a task started at %v, and had to by %v", last, by)
	}
	if dead != expired {
		t.Errorf("%d dead tasks, want one for each of %d expired: %.1000s%s", dead, expired, listed.out, listed.err)
	}
}
