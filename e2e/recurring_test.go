package e2e_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/longtest"
)

const (
	// tickEvery is how often the recurring task ticks, ticksKilled how many of its enqueuers are killed.
	tickEvery   = 2 * time.Second
	ticksKilled = 10
	tickText    = "recurring task enqueued"
	tickLimit   = "{meters: {requests: {rate: 50/s, capacity: 5}}}"
	tickYAML    = `queues: {other: 1}
recurring:
  tick:
    every: 2s
    queue: ticks
    task:
      type: llm:call
      payload: {limit: openai, request: {model: m, max_tokens: 5, messages: [{role: user, content: tick}]}}
`
)

// lastTicker is the live worker that enqueued the last tick after a moment; -1 where none has.
func (w *world) lastTicker(t *testing.T, after time.Time) (worker int) {
	t.Helper()
	worker = -1
	for i, p := range w.workers {
		if p.cmd.ProcessState != nil {
			continue
		}
		for _, r := range records(p.log(t)) {
			if r.Text == tickText && r.Time.After(after) {
				worker, after = i, r.Time
			}
		}
	}
	return worker
}

// records are the whole lines of a log.
func records(text string) (all []record) {
	for line := range strings.Lines(text) {
		var r record
		if json.Unmarshal([]byte(line), &r) == nil {
			all = append(all, r)
		}
	}
	return all
}

// Three processes enqueue a tick every two seconds. Whichever enqueued the last one is killed -9, ten times. A process
// that stays runs the tasks: each tick exactly once, none is left out.
//
//nolint:paralleltest // kills processes by the clock: it has the machine for itself
func TestTicksOnceWhenEnqueuersAreKilled(t *testing.T) {
	longtest.Only(t, 80*time.Second)
	w := newWorld(t, setting{limit: tickLimit, others: "", provider: []string{"-min-latency=1ms", "-max-latency=2ms"}})
	w.config = writeFile(t, "runner.yaml", "limits: {openai: "+tickLimit+"}\nqueues: {ticks: 1}\n")
	w.startOne(t, programPlain, w.env(w.redisURL))
	runner := w.workers[0]
	w.config = writeFile(t, "enqueuer.yaml", "limits: {openai: "+tickLimit+"}\n"+tickYAML)
	w.program = programPlain
	w.start(t, fleet)
	w.awaitWorkers(t)
	since := time.Time{}
	for range ticksKilled {
		victim := -1
		await(t, "a live worker enqueues a tick", func() (bool, string) {
			victim = w.lastTicker(t, since)
			return victim >= 0, ""
		})
		since = time.Now()
		w.workers[victim].kill()
		w.start(t, 1)
	}
	await(t, "a live worker enqueues a tick", func() (bool, string) {
		return w.lastTicker(t, since) >= 0, ""
	})
	for _, p := range w.workers[1:] {
		p.kill()
	}
	await(t, "all ticks have run", func() (bool, string) {
		i, err := w.inspector.GetQueueInfo("ticks")
		return err == nil && i.Size == i.Completed, ""
	})
	starts := map[string]int{}
	for _, r := range records(runner.log(t)) {
		if r.Text == "task starts" {
			starts[r.Task]++
		}
	}
	w.wantEachTick(t, starts)
}

// wantEachTick wants each tick from the first to the last once. A machine that stood still for longer than a tick takes
// may have left out that many.
func (w *world) wantEachTick(t *testing.T, starts map[string]int) {
	t.Helper()
	var ticks []time.Time
	for id, n := range starts {
		at, err := time.Parse("tick@2006-01-02T15:04:05Z", id)
		if err != nil {
			t.Fatalf("task %q is no tick: %v", id, err)
		}
		if n != 1 {
			t.Errorf("tick %v started %d times", at, n)
		}
		ticks = append(ticks, at)
	}
	slices.SortFunc(ticks, time.Time.Compare)
	if len(ticks) < ticksKilled {
		t.Fatalf("only %d ticks", len(ticks))
	}
	wanted := int(ticks[len(ticks)-1].Sub(ticks[0])/tickEvery) + 1
	stood := w.pulse.total()
	t.Logf("%d of %d ticks, each started once; %d processes killed; the machine stood still for %v",
		len(ticks), wanted, ticksKilled, stood)
	if wanted-len(ticks) > int(stood/tickEvery) {
		t.Errorf("%d ticks started, wanted %d", len(ticks), wanted)
	}
}
