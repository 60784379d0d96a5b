package e2e_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/longtest"
	"github.com/headway-go/headway/internal/provider"
)

// spell is a time in which workers are up: from the first call after a start of the fleet to the last call before a
// kill, or the end.
type spell struct {
	started time.Time // when the workers were started
	until   provider.Report
}

// batchRun is a batch with an enqueuer that waits for it. The enqueuer is killed and started again together with the
// workers.
type batchRun struct {
	*world

	in, out, errors string // names of files
	enqueuers       []*process
	spells          []spell
	up              time.Time
}

func (r *batchRun) args() []string {
	return []string{
		"batch", r.in, "--out", r.out, "--errors", r.errors, "--limit", "openai", "--wait", "--json", "--config", r.config,
	}
}

// begin starts the workers and the enqueuer.
func (r *batchRun) begin(t *testing.T) {
	t.Helper()
	r.up = time.Now()
	r.start(t, fleet)
	r.enqueuers = append(r.enqueuers,
		spawn(t, fmt.Sprintf("enqueue%d", len(r.enqueuers)+1), "headway", r.env(r.redis.URL()), r.args()...))
}

// ended returns how many requests have ended, according to asynq.
func (r *batchRun) ended(t *testing.T) int {
	t.Helper()
	i := r.info(t)
	return i.Completed + i.Archived
}

// awaitEnded waits until at least n requests have ended.
func (r *batchRun) awaitEnded(t *testing.T, n int) {
	t.Helper()
	await(t, fmt.Sprintf("%d requests have ended", n), func() (bool, string) {
		return r.ended(t) >= n, describe(r.info(t))
	})
}

// killAll ends the workers and the enqueuer at once, like kill -9.
func (r *batchRun) killAll(t *testing.T) {
	t.Helper()
	running := append(slices.Clone(r.workers[len(r.workers)-fleet:]), r.enqueuers[len(r.enqueuers)-1])
	for _, p := range running {
		select {
		case <-p.exited:
			t.Errorf("%s had ended before it was killed", p.name)
		default:
		}
		_ = p.cmd.Process.Kill() // waited for below
	}
	for _, p := range running {
		p.kill()
	}
	r.note(t)
	t.Logf("killed: %s", describe(r.info(t)))
}

// note ends a spell, after the provider has counted the end of all calls.
func (r *batchRun) note(t *testing.T) {
	t.Helper()
	s := spell{started: r.up}
	await(t, "no call runs", func() (bool, string) {
		s.until = r.report(t)
		return s.until.InFlight == 0, fmt.Sprintf("%d run", s.until.InFlight)
	})
	r.spells = append(r.spells, s)
}

// batchFigures are the figures of a batch that the commands print and the test checks.
type batchFigures struct {
	Event    string  `json:"event"`
	Batch    string  `json:"batch"`
	Requests int     `json:"requests"`
	Enqueued int     `json:"enqueued"`
	Queued   int     `json:"already_queued"`
	Finished int     `json:"already_done"`
	Done     int     `json:"done"`
	Failed   int     `json:"failed"`
	Waiting  int     `json:"waiting"`
	Used     float64 `json:"tokens_used"`
	Reserved float64 `json:"tokens_reserved"`
}

// printed returns what an enqueuer printed last with this event, or the zero value.
func (p *process) printed(event string) (last batchFigures) {
	for line := range strings.Lines(p.out.String()) {
		var f batchFigures
		if json.Unmarshal([]byte(line), &f) == nil && f.Event == event {
			last = f
		}
	}
	return last
}

// status returns the figures of `headway status`.
func (r *batchRun) status(t *testing.T) (f batchFigures) {
	t.Helper()
	c := command(t, "headway", r.env(r.redis.URL()), "", "status", "--json", "--config", r.config)
	if err := json.Unmarshal([]byte(c.out), &f); err != nil || c.code != 0 {
		t.Fatalf("status: exit %d, %v: %s%s", c.code, err, c.out, c.err)
	}
	return f
}

// used returns the used share of the meter's limit, in all spells together and in each.
func (r *batchRun) used(t *testing.T, f *figures, meter string) (all float64, each []float64) {
	t.Helper()
	var taken, allowed, before float64
	for _, s := range r.spells {
		starts := f.startsIn(s.started, s.until.LastStart.Add(time.Millisecond))
		if len(starts) == 0 {
			t.Fatalf("nothing started from %v to %v", s.started, s.until.LastStart)
		}
		m := s.until.Meters[meter]
		could := m.Capacity + m.Rate*s.until.LastStart.Sub(starts[0]).Seconds()
		each = append(each, (m.Counted-before)/could)
		taken, allowed, before = taken+m.Counted-before, allowed+could, m.Counted
	}
	return taken / allowed, each
}

// newBatchRun returns a world with both limits, whose workers learn their estimates, and a batch in a file. The
// provider counts real usage, so its counts show how near the estimates are. It counts an answer when the answer
// ends, so its bucket loses refill if it is full meanwhile. So our bucket is smaller, by the answers that run at
// once. The workers run without the race detector, because the test also judges their usage of the limit while a
// backlog is sorted.
func newBatchRun(t *testing.T, input mixed) *batchRun {
	t.Helper()
	w := newWorld(t, setting{
		limit:  "{meters: {requests: {rate: 80/s, capacity: 40}, tokens: {rate: 12000/s, capacity: 9000}}}",
		others: "estimates: {learn: [openai], quantile: 0.5}\n",
		provider: []string{
			"-requests-rate=80", "-requests-capacity=40", "-tokens-rate=12000", "-tokens-capacity=12000", "-count-used",
		},
	})
	w.program = programPlain
	folder := t.TempDir()
	return &batchRun{
		world: w, in: writeFile(t, "in.jsonl", input.text), out: filepath.Join(folder, "out.jsonl"),
		errors: filepath.Join(folder, "err.jsonl"),
	}
}

// All processes of a batch are killed twice while it runs, and started again by the same commands. In the end each
// request has one line, the limit was kept and used, and reservations match the usage.
//
// asynq delivers the tasks of killed workers again at its first look after 60 seconds, that is 60 seconds after the
// second start. The kills are early, so that other tasks still wait then and the fleet is never idle.
//
//nolint:paralleltest // measures a limit: it has the machine for itself
func TestBatchKilledTwice(t *testing.T) {
	longtest.Only(t, 150*time.Second)
	const requests = 5000
	const down = 3 * time.Second
	input := mixedRequests(t, requests)
	r := newBatchRun(t, input)
	for _, after := range []int{500, 1100} {
		r.begin(t)
		r.awaitEnded(t, after)
		r.killAll(t)
		pass(t, down)
	}
	r.begin(t)
	r.awaitEnded(t, requests/2)
	half := r.status(t)
	last := r.enqueuers[len(r.enqueuers)-1]
	if code := last.exit(t, patience); code != exitFailed {
		t.Errorf("the enqueuer ended with exit code %d, wanted %d: some requests failed", code, exitFailed)
	}
	r.note(t)
	lines := readAnswers(t, input, r.out, r.errors)
	if left, err := os.ReadDir(filepath.Dir(r.out)); err != nil || len(left) != 2 {
		t.Errorf("beside the answers there are %v, %v", left, err)
	}
	// refused requests; finish fails if the archive is not empty
	if _, err := r.inspector.DeleteAllArchivedTasks(queue); err != nil {
		t.Fatal(err)
	}
	f := r.finish(t)
	used, each := r.used(t, &f, provider.MeterTokens)
	sent, end := last.printed("enqueued"), last.printed("ended")
	off := (end.Reserved-half.Reserved)/(end.Used-half.Used) - 1
	t.Logf("TestBatchKilledTwice: violations %d, %d of %d requests have one line (%d of them in the error file), %d "+
		"calls were made twice, tokens used %.2f %% while workers were up (%s), reserved %+.1f %% of the usage in the "+
		"second half (%+.1f %% in the first)",
		f.Violations, lines.good+lines.bad, requests, lines.bad, f.repeated, 100*used, percents(each), 100*off,
		100*(half.Reserved/half.Used-1))
	if sent.Requests != requests || sent.Enqueued+sent.Queued+sent.Finished != requests || sent.Finished == 0 ||
		end.Done != lines.good || end.Failed != lines.bad || end.Waiting != 0 {
		t.Errorf("the last enqueuer printed %+v and %+v", sent, end)
	}
	if refused := input.count(kindRefused); lines.bad != refused || f.tasks != requests-refused {
		t.Errorf("%d lines in the error file, wanted %d; %d tasks have started", lines.bad, refused, f.tasks)
	}
	f.wantUsed(t, used, 0.97)
	if !(math.Abs(off) <= 0.1) {
		t.Errorf("%.0f tokens were reserved in the second half and %.0f used, wanted at most 10 %% between them",
			end.Reserved-half.Reserved, end.Used-half.Used)
	}
}

// startsIn returns the starts between two times, from the workers' logs.
func (f *figures) startsIn(from, to time.Time) []time.Time {
	var all []time.Time
	for _, j := range f.journeys {
		if !j.start.Before(from) && j.start.Before(to) {
			all = append(all, j.start)
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}

func percents(shares []float64) string {
	texts := make([]string, len(shares))
	for i, s := range shares {
		texts[i] = fmt.Sprintf("%.2f %%", 100*s)
	}
	return strings.Join(texts, ", ")
}
