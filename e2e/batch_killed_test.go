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

	"github.com/headway-go/headway/internal/test/night"
)

// batchRun is a batch with an enqueuer that waits for it. The enqueuer is killed and started again together with the
// workers.
type batchRun struct {
	*world

	in, out, errors string // names of files
	enqueuers       []*process
}

func (r *batchRun) args() []string {
	return []string{
		"batch", r.in, "--out", r.out, "--errors", r.errors, "--limit", "openai", "--wait", "--json", "--config", r.config,
	}
}

// begin starts the workers and the enqueuer.
func (r *batchRun) begin(t *testing.T) {
	t.Helper()
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
	t.Logf("killed: %s", describe(r.info(t)))
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

// newBatchRun returns a world with both limits, whose workers learn their estimates, and a batch in a file.
func newBatchRun(t *testing.T, input mixed) *batchRun {
	t.Helper()
	w := newWorld(t, setting{
		limit:  "{meters: {requests: {rate: 80/s, capacity: 40}, tokens: {rate: 12000/s, capacity: 9000}}}",
		others: "estimates: {learn: [openai], quantile: 0.5}\n",
	})
	folder := t.TempDir()
	return &batchRun{
		world: w, in: writeFile(t, "in.jsonl", input.text), out: filepath.Join(folder, "out.jsonl"),
		errors: filepath.Join(folder, "err.jsonl"),
	}
}

// All processes of a batch are killed twice while it runs, and started again by the same commands. In the end each
// request has one line, and reservations match the usage. asynq delivers the tasks of killed workers again at its
// first look after 60 seconds, that is 60 seconds after the second start.
func TestBatchKilledTwice(t *testing.T) {
	t.Parallel()
	night.Only(t, "takes 100 s")
	const requests = 3000
	input := mixedRequests(t, requests)
	r := newBatchRun(t, input)
	for _, after := range []int{400, 900} {
		r.begin(t)
		r.awaitEnded(t, after)
		r.killAll(t)
	}
	r.begin(t)
	r.awaitEnded(t, requests/2)
	half := r.status(t)
	last := r.enqueuers[len(r.enqueuers)-1]
	if code := last.exit(t); code != exitFailed {
		t.Errorf("the enqueuer ended with exit code %d, wanted %d: some requests failed", code, exitFailed)
	}
	lines := readAnswers(t, input, r.out, r.errors)
	if left, err := os.ReadDir(filepath.Dir(r.out)); err != nil || len(left) != 2 {
		t.Errorf("beside the answers there are %v, %v", left, err)
	}
	// refused requests; finish fails if the archive is not empty
	if _, err := r.inspector.DeleteAllArchivedTasks(queue); err != nil {
		t.Fatal(err)
	}
	f := r.finish(t)
	f.wantLimitKept(t, 80, 40)
	sent, end := last.printed("enqueued"), last.printed("ended")
	off := (end.Reserved-half.Reserved)/(end.Used-half.Used) - 1
	t.Logf("%d of %d requests have one line (%d of them in the error file), %d calls were made twice, reserved %+.1f %% "+
		"of the usage in the second half (%+.1f %% in the first)",
		lines.good+lines.bad, requests, lines.bad, f.repeated, 100*off, 100*(half.Reserved/half.Used-1))
	if sent.Requests != requests || sent.Enqueued+sent.Queued+sent.Finished != requests || sent.Finished == 0 ||
		end.Done != lines.good || end.Failed != lines.bad || end.Waiting != 0 {
		t.Errorf("the last enqueuer printed %+v and %+v", sent, end)
	}
	if refused := input.count(kindRefused); lines.bad != refused || f.tasks != requests-refused {
		t.Errorf("%d lines in the error file, wanted %d; %d tasks have started", lines.bad, refused, f.tasks)
	}
	if !(math.Abs(off) <= 0.1) {
		t.Errorf("%.0f tokens were reserved in the second half and %.0f used, wanted at most 10 %% between them",
			end.Reserved-half.Reserved, end.Used-half.Used)
	}
}
