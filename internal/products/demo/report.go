package demo

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/headway-go/headway/internal/products/provider"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/worker"
)

// ErrBroken means that more started than the limit allowed, or that a task was lost or failed.
var ErrBroken = errors.New("the demo did not keep its promise")

// Report is the result of a demo. Its JSON keys are stable.
type Report struct {
	Enqueued  int `json:"enqueued"`
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`
	Lost      int `json:"lost"`
	// Unfinished counts the tasks that had not ended when the demo was stopped. They are not lost.
	Unfinished int `json:"unfinished,omitempty"`
	// Exceeded counts the starts that the limit did not allow at their moment, by the bucket's own clock.
	Exceeded int `json:"limit_exceeded"`
	// Violations are what the provider counted: also calls that arrived later than they started, and met others.
	Violations int `json:"violations"`
	// Stall is the longest time in which this process did not run.
	Stall float64 `json:"longest_stall_ms"`
	// Utilization is the share of the limit that was used between the first start and the last, by the bottleneck
	// meter.
	Utilization       float64 `json:"utilization"`
	DeliveriesPerTask float64 `json:"deliveries_per_task"`
	LatenessP50       float64 `json:"lateness_p50_ms"`
	LatenessP99       float64 `json:"lateness_p99_ms"`

	bottleneck string
	took       time.Duration
	refused    string  // the first violations, for people
	above      float64 // the largest excess, as a share of a capacity
}

func newReport(enqueued int, t *tally, p provider.Report, limit reservations.Limit, stall time.Duration) Report {
	c := t.now()
	exceeded, above := t.bound.exceeded(limit)
	r := Report{
		Exceeded: exceeded, above: above, Stall: milliseconds(stall), refused: refusals(p.Refusals),
		Enqueued: enqueued, Succeeded: c.succeeded, Failed: c.archived, Lost: enqueued - c.succeeded - c.archived,
		Violations:        p.Violations,
		Utilization:       round(p.Utilization, 4),
		DeliveriesPerTask: round(float64(c.deliveries)/math.Max(1, float64(enqueued)), 3),
		LatenessP50:       milliseconds(t.quantile(0.5)),
		LatenessP99:       milliseconds(t.quantile(0.99)),
		took:              p.LastStart.Sub(p.FirstStart),
	}
	most := -1.
	for name, m := range p.Meters {
		if m.Utilization > most {
			most, r.bottleneck = m.Utilization, name
		}
	}
	return r
}

// refusalsShown bounds the violations of which a report says more.
const refusalsShown = 3

// refusals says what the provider counted as violations: the meter, and by how much it was short.
func refusals(all []provider.Refusal) string {
	var texts []string
	for _, r := range all[:min(len(all), refusalsShown)] {
		texts = append(texts, fmt.Sprintf("%s short by %.1f at %s", r.Meter, r.Need-r.Had, r.At.Format("15:04:05.000")))
	}
	return strings.Join(texts, ", ")
}

func round(x float64, digits int) float64 {
	f := math.Pow10(digits)
	return math.Round(x*f) / f
}

func milliseconds(d time.Duration) float64 { return round(float64(d)/float64(time.Millisecond), 1) }

// Err returns nil if the promise was kept: no start above the limit, no lost and no failed task. What the provider
// counted because a call arrived late is no fault of the bucket.
func (r Report) Err() error {
	if r.Exceeded == 0 && r.Lost == 0 && r.Failed == 0 {
		return nil
	}
	return fmt.Errorf("%w: the limit was exceeded %d times, %d lost, %d failed", ErrBroken, r.Exceeded, r.Lost, r.Failed)
}

// cause says why the provider counted violations.
func (r Report) cause() string {
	switch {
	case r.Violations == 0:
		return "counted by the provider, when calls arrive"
	case r.Exceeded > 0:
		return "counted by the provider: " + r.refused
	}
	return fmt.Sprintf("counted by the provider, all of late arrivals: %s; each call started within the limit, and this "+
		"machine stood still for up to %.0f ms", r.refused, r.Stall)
}

// Write prints the report for people.
func (r Report) Write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "done\t%d of %d\n", r.Succeeded, r.Enqueued)
	fmt.Fprintf(t, "failed\t%d\n", r.Failed)
	if r.Unfinished > 0 {
		fmt.Fprintf(t, "unfinished\t%d\twhen the demo was stopped\n", r.Unfinished)
	}
	fmt.Fprintf(t, "lost\t%d\n", r.Lost)
	exceeded := "starts that the bucket should not have allowed, by its own clock"
	if r.Exceeded > 0 {
		exceeded += fmt.Sprintf(", by up to %.2f %% of the capacity", 100*r.above)
	}
	fmt.Fprintf(t, "limit exceeded\t%d\t%s\n", r.Exceeded, exceeded)
	fmt.Fprintf(t, "violations\t%d\t%s\n", r.Violations, r.cause())
	fmt.Fprintf(t, "longest stall\t%.1f ms\tin which this machine did not run the demo\n", r.Stall)
	fmt.Fprintf(t, "limit used\t%.1f %%\tof %s, in %.1f s from the first start to the last\n", 100*r.Utilization,
		r.bottleneck, r.took.Seconds())
	fmt.Fprintf(t, "deliveries a task\t%.2f\t1 is a task that never waited\n", r.DeliveriesPerTask)
	fmt.Fprintf(t, "lateness p50\t%.1f ms\tfrom when a task may start until its handler runs\n", r.LatenessP50)
	fmt.Fprintf(t, "lateness p99\t%.1f ms\n", r.LatenessP99)
	return t.Flush()
}

// tally counts the events of the fleet's workers. It is safe for concurrent use.
type tally struct {
	want  int
	bound bound
	all   chan struct{} // closed when every task has ended

	mu       sync.Mutex // guards the fields below
	counts   counts
	ended    map[string]bool
	lateness []time.Duration
}

// counts is a snapshot of the fleet.
type counts struct {
	deliveries, running, succeeded, archived int
}

func newTally(want int) *tally {
	return &tally{want: want, all: make(chan struct{}), ended: map[string]bool{}}
}

// event counts an event of a worker.
func (t *tally) event(e worker.Event) {
	t.bound.event(e)
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.Ended() {
		t.counts.running--
	}
	switch e.Kind { //nolint:exhaustive // the others change no count; the demo drops no task
	case worker.KindStarted:
		t.counts.deliveries++
		t.counts.running++
		if e.Waited {
			t.lateness = append(t.lateness, max(0, e.Lateness))
		}
	case worker.KindDeferred:
		t.counts.deliveries++
	case worker.KindRejected:
		t.counts.deliveries++
		t.end(e.Task.ID, &t.counts.archived)
	case worker.KindSucceeded:
		t.end(e.Task.ID, &t.counts.succeeded)
	case worker.KindArchived:
		t.end(e.Task.ID, &t.counts.archived)
	}
}

// end counts a task once, however often it was delivered. It requires that mu is held.
func (t *tally) end(id string, count *int) {
	if t.ended[id] {
		return
	}
	t.ended[id] = true
	*count++
	if len(t.ended) == t.want {
		close(t.all)
	}
}

func (t *tally) now() counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts
}

// quantile is the lateness that the share q of all starts after a wait does not exceed. It is zero if no task waited.
func (t *tally) quantile(q float64) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lateness) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(t.lateness))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
