package e2e_test

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/longtest"
	"github.com/headway-go/headway/internal/provider"
)

// onTheWay is how long after a refusal earlier granted calls may arrive: their hold, plus the latency of the
// provider.
const onTheWay = 500 * time.Millisecond

// The provider refuses 7 % of the calls for 3 s, answers 5 % with a 500, and drops the connection of 2 %.
//
//nolint:paralleltest // measures a limit: it has the machine for itself
func TestTroubledProvider(t *testing.T) {
	longtest.Only(t, 80*time.Second)
	const tasks, rate, capacity = 200, 20, 5
	w := newWorld(t, setting{
		limit: "{meters: {requests: {rate: 20/s, capacity: 5}}}",
		provider: []string{
			"-requests-rate=20", "-requests-capacity=5",
			"-trouble-refuse=0.07", "-trouble-refuse-for=3s", "-trouble-fail=0.05", "-trouble-drop=0.02",
		},
	})
	w.start(t, fleet)
	w.awaitWorkers(t)
	id := w.enqueue(t, smallChats(1, tasks))
	w.awaitCompleted(t, tasks)
	out := filepath.Join(t.TempDir(), "out.jsonl")
	r := command(t, "headway", w.env(w.redis.URL()), "",
		"results", id, "--out", out, "--errors", out+".errors", "--config", w.config)
	if r.code != 0 {
		t.Fatalf("results: exit %d: %s%s", r.code, r.out, r.err)
	}
	f := w.finish(t)
	seen := map[string]int{}
	eachAnswer(t, out, func(l answerLine) { seen[l.CustomID]++ })
	if bad := eachAnswer(t, out+".errors", func(answerLine) {}); len(seen) != tasks || bad != 0 {
		t.Errorf("%d requests have an answer, %d an error; wanted %d answers", len(seen), bad, tasks)
	}
	for name, n := range seen {
		if n != 1 {
			t.Errorf("%s has %d answers", name, n)
		}
	}
	most := time.Duration(0)
	for _, trouble := range f.Troubles {
		most = max(most, trouble.LastWithin)
	}
	if most > onTheWay {
		t.Errorf("a call arrived %v after a refusal for 3 s", most)
	}
	used := usedOutside(&f, len(f.Times)*9/10, rate, capacity) // in the end only failed tasks wait for their retries
	t.Logf("%d refusals, %d calls failed; the last call within a block came after %v; %.1f %% used outside of blocks",
		len(f.Troubles), f.Failed, most, 100*used)
	f.wantUsed(t, used, 0.85)
	if len(f.Troubles) < tasks/40 || f.Failed < tasks/40 {
		t.Errorf("%d refusals and %d failures are too few", len(f.Troubles), f.Failed)
	}
}

// usedOutside returns the used share of the limit outside of blocks, until the nth accepted call. Refused calls
// count.
func usedOutside(f *figures, n int, rate, capacity float64) float64 {
	first, last := f.FirstStart, f.Times[n-1]
	calls, open := float64(n), last.Sub(first)
	blocks := slices.Clone(f.Troubles)
	slices.SortFunc(blocks, func(a, b provider.TroubleReport) int { return a.At.Compare(b.At) })
	until := first
	for _, b := range blocks {
		if b.At.After(last) {
			break
		}
		calls++
		from, to := b.At, b.Until
		if from.Before(until) {
			from = until
		}
		if to.After(last) {
			to = last
		}
		if to.After(from) {
			open -= to.Sub(from)
			until = to
		}
	}
	return calls / (capacity + rate*open.Seconds())
}
