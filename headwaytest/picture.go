package headwaytest

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/headway-go/headway/internal/products/chart"
)

// points is the number of points of a line in a picture.
const points = 240

// errorsShown is the most errors in the text of a report.
const errorsShown = 10

// series are the lines of a picture.
type series struct {
	took    time.Duration
	waiting chart.Line
	calls   []chart.Line
}

// newSeries returns the number of waiting tasks over time.
func newSeries(began time.Time, took time.Duration, steps []step) series {
	s := series{took: took, waiting: chart.Line{Name: "waiting"}}
	i, waits := 0, 0
	for n := range points + 1 {
		at := took * time.Duration(n) / points
		for i < len(steps) && steps[i].at.Sub(began) <= at {
			waits = steps[i].waits
			i++
		}
		s.waiting.X, s.waiting.Y = append(s.waiting.X, at), append(s.waiting.Y, float64(waits))
	}
	return s
}

// add adds the calls a second of a provider.
func (s *series) add(name string, began time.Time, calls []time.Time) {
	line := chart.Line{Name: name, X: make([]time.Duration, points), Y: make([]float64, points)}
	length := max(s.took/points, 1)
	for n := range points {
		line.X[n] = length*time.Duration(n) + length/2
	}
	for _, at := range calls {
		line.Y[min(points-1, int(at.Sub(began)/length))] += 1 / length.Seconds()
	}
	s.calls = append(s.calls, line)
}

// SVG writes the report as a picture: the tasks that wait, and the calls of each provider, over time.
func (r Report) SVG(w io.Writer) error {
	title := fmt.Sprintf("%s in %v, %s, %d lost",
		several(r.Tasks, "task"), r.Took.Round(time.Second), several(r.Violations, "violation"), r.Lost)
	return chart.SVG(w, title,
		chart.Panel{Title: "Waiting tasks", Unit: "tasks", Lines: []chart.Line{r.series.waiting}},
		chart.Panel{Title: "Calls", Unit: "calls/s", Lines: r.series.calls})
}

// several is a number of things.
func several(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// String returns the report as a table.
func (r Report) String() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t"+format+"\n", append([]any{name}, args...)...)
	}
	row("time", "%v, last start at %v", r.Took.Round(time.Millisecond), r.LastStart.Round(time.Millisecond))
	left := fmt.Sprintf("%d left", r.Left)
	if r.Unsent > 0 {
		left += fmt.Sprintf(" (%d of them at their producer)", r.Unsent)
	}
	row("tasks", "%d: %d done, %d failed, %s; %d lost, %d done twice", r.Tasks, r.Done, r.Failed, left, r.Lost, r.Twice)
	row("wait", "%v", r.Wait)
	row("lateness", "%v", r.Lateness)
	row("deliveries", "%.3f a task, at most %d; %d places lost", r.Deliveries, r.MostDeliveries, r.PlacesLost)
	row("redis", "%d commands, %.1f/s", r.Commands, float64(r.Commands)/max(r.Took.Seconds(), 1))
	for _, line := range r.series.calls {
		p := r.Providers[line.Name]
		row(line.Name, "%s, %.2f %% used, %s; %d refused, %d failed, %d ignored a refusal",
			several(p.Calls, "call"), 100*r.Use[line.Name], several(p.Count, "violation"), p.Refused, p.Failed, p.Ignored)
		if p.OwnLimit {
			row("", "enforced your own limit: name the provider's in Provider.Meters")
		}
		if p.Count > len(p.Violations) {
			row("", "the first %d of %d violations:", len(p.Violations), p.Count)
		}
		for _, v := range p.Violations {
			row("", "violation %v", v)
		}
	}
	for i, e := range r.Errors {
		if i == errorsShown {
			row("", "and %d other errors, see Report.Errors", len(r.Errors)-i)
			break
		}
		row("error", "%d times, last at %v by %s: %q", e.Count, e.Last.Round(time.Millisecond), e.By, e.Text)
	}
	_ = w.Flush() // a strings.Builder never fails
	return "\n" + text.String()
}

func (q Quantiles) String() string {
	r := func(d time.Duration) time.Duration {
		if d > time.Minute {
			return d.Round(time.Second)
		}
		return d.Round(100 * time.Microsecond)
	}
	return fmt.Sprintf("p50 %v, p95 %v, p99 %v, max %v", r(q.P50), r(q.P95), r(q.P99), r(q.Max))
}

// present logs the last report with -v, and draws it where a picture is wanted.
func (f *Fleet) present() {
	f.t.Helper()
	if !testing.Verbose() && f.settings.picture == "" {
		return
	}
	r := f.report()
	f.t.Log(r)
	if f.settings.picture == "" {
		return
	}
	file, err := os.Create(f.settings.picture)
	if err != nil {
		f.errorf("picture: %v", err)
		return
	}
	if err = r.SVG(file); err == nil {
		err = file.Close()
	}
	if err != nil {
		f.errorf("picture: %v", err)
	}
}
