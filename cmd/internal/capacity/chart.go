package capacity

import (
	"errors"
	"fmt"
	"time"

	"github.com/headway-go/headway/internal/products/chart"
	"github.com/headway-go/headway/internal/products/simulate"
	"github.com/headway-go/headway/internal/setup/cli"
)

// linesMost is how many meters a chart shows.
const linesMost = 6

// pointsMost is how many points the use of a meter has.
const pointsMost = 90

// draw writes the chart of a result.
func (j *job) draw(r simulate.Result) error {
	if j.chart == "" {
		return nil
	}
	file, err := cli.CreateFile(j.chart, cli.Data(j.env.Out))
	if err != nil {
		return err
	}
	if err = chart.SVG(file, j.title(r), panels(r)...); err != nil {
		return errors.Join(err, file.Drop())
	}
	return file.Keep()
}

// title says what was simulated.
func (j *job) title(r simulate.Result) string {
	switch {
	case j.trace != "":
		return fmt.Sprintf("%d calls of %s", r.Calls, j.trace)
	case j.batch != "":
		return fmt.Sprintf("%d requests of %s", r.Calls, j.batch)
	case j.arrive == "":
		return fmt.Sprintf("A backlog of %d calls", r.Calls)
	}
	return fmt.Sprintf("%d calls, %s", r.Calls, j.arrive)
}

// panels are the waiting and running calls, and the use of meters in percent of their rates.
func panels(r simulate.Result) []chart.Panel {
	s := r.Series
	use := chart.Panel{Title: "Use of each meter", Unit: "% of the rate"}
	for _, m := range s.Meters[:min(len(s.Meters), linesMost)] {
		line := chart.Line{Name: m.Bucket + " " + m.Meter}
		line.X, line.Y = averages(s.Times, m.Taken)
		for i := range line.Y {
			line.Y[i] *= 100 / m.Rate
		}
		use.Lines = append(use.Lines, line)
	}
	return []chart.Panel{
		{Title: "Waiting calls", Unit: "calls", Lines: []chart.Line{{X: s.Times, Y: s.Waiting}}},
		{Title: "Running calls", Unit: "calls", Lines: []chart.Line{{X: s.Times, Y: s.Running}}},
		use,
	}
}

// averages joins neighbors: bursts and refunds of single calls would hide the use of a meter.
func averages(times []time.Duration, values []float64) (x []time.Duration, y []float64) {
	each := (len(values) + pointsMost - 1) / pointsMost
	for from := 0; from < len(values); from += each {
		to, sum := min(from+each, len(values)), 0.
		for _, v := range values[from:to] {
			sum += v
		}
		x, y = append(x, times[to-1]), append(y, max(0, sum/float64(to-from)))
	}
	return x, y
}
