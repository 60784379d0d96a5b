package report

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"

	"github.com/headway-go/headway/bench/library"
	"github.com/headway-go/headway/bench/results"
	"github.com/headway-go/headway/bench/works"
)

// Plots draws all plots with results into folder, and returns the names of the files by work.
func Plots(in Input, folder string) (map[string][]string, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // for everybody to read
		return nil, fmt.Errorf("report: %w", err)
	}
	drawn := map[string][]string{}
	keep := func(work, name string, p *plot.Plot, err error) error {
		if err != nil || p == nil {
			return err
		}
		if err = save(p, filepath.Join(folder, name)); err != nil {
			return fmt.Errorf("report: draw %s: %w", name, err)
		}
		drawn[work] = append(drawn[work], name)
		return nil
	}
	for _, d := range drawings() {
		p, err := d.draw(in)
		if err = keep(d.work, d.file, p, err); err != nil {
			return nil, err
		}
	}
	return drawn, nil
}

// drawing is one plot of a work. draw returns nil if there is no result.
type drawing struct {
	work, file string
	draw       func(in Input) (*plot.Plot, error)
}

func drawings() []drawing {
	return []drawing{
		{"burst", "burst.svg", func(in Input) (*plot.Plot, error) {
			return progress(in, "burst", "Calls so far: 100 a second are allowed")
		}},
		{"burst", "windows.svg", func(in Input) (*plot.Plot, error) {
			return bars(in, "burst", "Fullest second, in % of the limit", results.Worst1s, 100, false)
		}},
		{"burst", "deliveries.svg", func(in Input) (*plot.Plot, error) {
			return bars(in, "burst", "Deliveries of each task", results.Deliveries, 1, true)
		}},
		{"mixed", "mixed.svg", func(in Input) (*plot.Plot, error) {
			return bars(in, "mixed", "Seconds until the 800 fast tasks are done (ideal: 7.9)", results.Finish, 1, false)
		}},
		{"outage", "outage.svg", func(in Input) (*plot.Plot, error) {
			return progress(in, "outage", "Calls so far, with an outage of all workers")
		}},
		{"reservations", "reservations.svg", reserving},
	}
}

// progress returns a plot of the calls so far, with a line for each contestant.
func progress(in Input, work, title string) (*plot.Plot, error) {
	p := newPlot(title)
	p.X.Label.Text, p.Y.Label.Text = "seconds", "calls"
	lines := 0
	for _, c := range in.Contestants {
		series := seriesOf(in.File, work, c.Name)
		if series == nil {
			continue
		}
		points := plotter.XYs{{}}
		for second, n := range series {
			points = append(points, plotter.XY{X: float64(second + 1), Y: points[second].Y + float64(n)})
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return nil, fmt.Errorf("report: %w", err)
		}
		line.Color, line.Dashes, line.Width = plotutil.Color(lines), plotutil.Dashes(lines/7), vg.Points(1.5)
		p.Add(line)
		p.Legend.Add(c.Name, line)
		lines++
	}
	if lines == 0 {
		return nil, nil //nolint:nilnil // nothing to draw
	}
	p.X.Max *= 1.35 // room for the legend
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(round), plot.TickerFunc(round)
	return p, nil
}

func seriesOf(f *results.File, work, contestant string) []int {
	for _, r := range f.Of(work, contestant) {
		for _, s := range r.Series {
			return s
		}
	}
	return nil
}

// bars returns a plot with one bar for each contestant with the metric, from the top down.
func bars(in Input, work, title, metric string, scale float64, logarithmic bool) (*plot.Plot, error) {
	var names []string
	var values plotter.Values
	for _, c := range slices.Backward(in.Contestants) {
		name := c.Name
		if v, of := in.File.Median(work, name, metric); of > 0 {
			if done, _ := in.File.Median(work, name, results.Done); done < 1 {
				name += fmt.Sprintf(" (%.0f %% done)", 100*done)
			}
			v *= scale
			if logarithmic {
				v = math.Log10(max(v, 1)) + .02 // so that 1 is visible
			}
			names, values = append(names, name), append(values, v)
		}
	}
	if len(values) == 0 {
		return nil, nil //nolint:nilnil // nothing to draw
	}
	p := newPlot(title)
	chart, err := plotter.NewBarChart(values, vg.Points(10))
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	chart.Horizontal, chart.Color, chart.LineStyle.Width = true, plotutil.Color(2), 0
	p.Add(chart)
	p.NominalY(names...)
	p.X.Min = 0
	p.X.Tick.Marker = plot.TickerFunc(round)
	if logarithmic {
		p.X.Tick.Marker = decades()
	}
	return p, nil
}

// reserving returns a plot with groups of bars: reservations a second by callers, for one bucket.
func reserving(in Input) (*plot.Plot, error) {
	if len(in.File.Of("reservations", works.Headway)) == 0 {
		return nil, nil //nolint:nilnil // nothing to draw
	}
	p := newPlot("Reservations a second on one bucket")
	p.Y.Min = 0
	bar := vg.Points(22)
	var labels []string
	for _, n := range library.Callers() {
		labels = append(labels, strings.Replace(fmt.Sprintf("%d callers", n), "1 callers", "1 caller", 1))
	}
	for i, c := range in.ReservationsBy {
		var values plotter.Values
		for _, n := range library.Callers() {
			v, _ := in.File.Median("reservations", c.Name, library.Metric(1, n))
			values = append(values, v)
		}
		chart, err := plotter.NewBarChart(values, bar)
		if err != nil {
			return nil, fmt.Errorf("report: %w", err)
		}
		chart.Color, chart.Offset, chart.LineStyle.Width = plotutil.Color(i), bar*vg.Length(i-1), 0
		p.Add(chart)
		p.Legend.Add(c.Name, chart)
	}
	p.Legend.Left = true
	p.Y.Tick.Marker = plot.TickerFunc(round)
	p.NominalX(labels...)
	return p, nil
}
