package headwaytest

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/headway-go/headway/internal/chart"
)

// points is the number of points of a line in a picture.
const points = 240

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
	title := fmt.Sprintf("%d tasks in %v, %d violations, %d lost",
		r.Tasks, r.Took.Round(time.Second), r.Violations, r.Lost)
	return chart.SVG(w, title,
		chart.Panel{Title: "Waiting tasks", Unit: "tasks", Lines: []chart.Line{r.series.waiting}},
		chart.Panel{Title: "Calls", Unit: "calls/s", Lines: r.series.calls})
}

// String returns the report as a table.
func (r Report) String() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t"+format+"\n", append([]any{name}, args...)...)
	}
	row("time", "%v, last start at %v", r.Took.Round(time.Millisecond), r.LastStart.Round(time.Millisecond))
	row("tasks", "%d: %d done, %d failed, %d left; %d lost, %d done twice",
		r.Tasks, r.Done, r.Failed, r.Left, r.Lost, r.Twice)
	row("wait", "%v", r.Wait)
	row("lateness", "%v", r.Lateness)
	row("deliveries", "%.3f a task, at most %d; %d places lost", r.Deliveries, r.MostDeliveries, r.PlacesLost)
	row("redis", "%d commands, %.1f/s", r.Commands, float64(r.Commands)/max(r.Took.Seconds(), 1))
	for _, line := range r.series.calls {
		p := r.Providers[line.Name]
		row(line.Name, "%d calls, %.2f %% used, %d violations; %d refused, %d failed, %d ignored a refusal",
			p.Calls, 100*r.Use[line.Name], p.Count, p.Refused, p.Failed, p.Ignored)
		for _, v := range p.Violations {
			row("", "violation at %v: %s %s needed %g, had %.7g", v.At, v.Meter, v.Key, v.Need, v.Had)
		}
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
	r := f.Report()
	f.t.Log(r)
	if f.settings.picture == "" {
		return
	}
	file, err := os.Create(f.settings.picture)
	if err != nil {
		f.t.Errorf("headwaytest: picture: %v", err)
		return
	}
	if err = r.SVG(file); err == nil {
		err = file.Close()
	}
	if err != nil {
		f.t.Errorf("headwaytest: picture: %v", err)
	}
}
