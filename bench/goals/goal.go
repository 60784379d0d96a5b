// Package goals says what Headway must reach, and whether it did.
package goals

import (
	"fmt"
	"slices"

	"github.com/headway-go/headway/bench/results"
)

// Verdict is what became of a goal.
type Verdict string

// The verdicts.
const (
	Reached Verdict = "reached"
	Missed  Verdict = "MISSED"
	Open    Verdict = "not measured"
)

// Checked is a goal with what was measured.
type Checked struct {
	// Work is the letter of the work, Goal what must be reached and Measured what was, in words.
	Work     string `json:"work"`
	Goal     string `json:"goal"`
	Measured string `json:"measured"`
	// Value and Bound are the numbers behind that.
	Value float64 `json:"value"`
	Bound float64 `json:"bound"`
	// Runs is how many runs the value is of.
	Runs    int     `json:"runs"`
	Verdict Verdict `json:"verdict"`
}

// goal is one of the table.
type goal struct {
	work, text string
	// value finds the figure, and how many runs it is of.
	value func(f *results.File) (float64, int)
	// least says that the figure must be at least bound; else it must be at most that.
	least  bool
	bound  float64
	format string
	scale  float64 // what the figure is multiplied by to be shown; zero means 1
}

// Check looks at all goals.
func Check(f *results.File) []Checked {
	list := all()
	checked := make([]Checked, len(list))
	for i, g := range list {
		checked[i] = g.check(f)
	}
	return checked
}

// MissedAny says whether a goal that was measured was missed.
func MissedAny(checked []Checked) bool {
	return slices.ContainsFunc(checked, func(c Checked) bool { return c.Verdict == Missed })
}

func (g goal) check(f *results.File) Checked {
	value, runs := g.value(f)
	c := Checked{Work: g.work, Goal: g.text, Value: value, Bound: g.bound, Runs: runs, Verdict: Missed}
	if runs == 0 {
		c.Verdict, c.Measured = Open, "-"
		return c
	}
	scale := g.scale
	if scale == 0 {
		scale = 1
	}
	c.Measured = fmt.Sprintf(g.format, value*scale)
	if g.least && value >= g.bound || !g.least && value <= g.bound {
		c.Verdict = Reached
	}
	return c
}

// median is the median of all runs.
func median(work, contestant, metric string) func(*results.File) (float64, int) {
	return func(f *results.File) (float64, int) { return f.Median(work, contestant, metric) }
}

// worst is the largest of all runs, works and contestants: what must never happen.
func worst(works, contestants, metrics []string) func(*results.File) (float64, int) {
	return func(f *results.File) (float64, int) {
		largest, runs := 0.0, 0
		for _, w := range works {
			for _, c := range contestants {
				for i, m := range metrics {
					values := f.Values(w, c, m)
					for _, v := range values {
						largest = max(largest, v)
					}
					if i == 0 {
						runs += len(values)
					}
				}
			}
		}
		return largest, runs
	}
}

// ratio is the median of the ratios within each repetition.
func ratio(work, contestant, other, metric string) func(*results.File) (float64, int) {
	return func(f *results.File) (float64, int) { return f.Ratio(work, contestant, other, metric) }
}
