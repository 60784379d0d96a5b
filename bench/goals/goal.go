// Package goals lists the goals of Headway, and checks whether they are reached.
package goals

import (
	"fmt"
	"slices"

	"github.com/headway-go/headway/bench/results"
)

// Verdict is the result of a goal.
type Verdict string

// The verdicts.
const (
	Reached Verdict = "reached"
	Missed  Verdict = "MISSED"
	Open    Verdict = "not measured"
)

// Checked is a goal with its measured value.
type Checked struct {
	// Work is the letter of the work. Goal is the goal and Measured the measured value, in words.
	Work     string `json:"work"`
	Goal     string `json:"goal"`
	Measured string `json:"measured"`
	// Value and Bound are the numbers of Measured and Goal.
	Value float64 `json:"value"`
	Bound float64 `json:"bound"`
	// Runs is the number of runs of the value.
	Runs    int     `json:"runs"`
	Verdict Verdict `json:"verdict"`
}

// goal is a row of the table.
type goal struct {
	work, text string
	// value returns the figure and its number of runs.
	value func(f *results.File) (float64, int)
	// least is true if the figure must be at least bound. If false, it must be at most bound.
	least  bool
	bound  float64
	format string
	scale  float64 // the factor of the figure for display; zero means 1
}

// Check checks all goals.
func Check(f *results.File) []Checked {
	list := all()
	checked := make([]Checked, len(list))
	for i, g := range list {
		checked[i] = g.check(f)
	}
	return checked
}

// MissedAny returns whether a measured goal was missed.
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

// median returns the median of all runs of Headway.
func median(work, metric string) func(*results.File) (float64, int) {
	return func(f *results.File) (float64, int) { return f.Median(work, ours, metric) }
}

// worst returns the largest value of all runs, works and contestants, for violations.
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

// ratio returns the median of the ratios within each repetition.
func ratio(work, contestant, other, metric string) func(*results.File) (float64, int) {
	return func(f *results.File) (float64, int) { return f.Ratio(work, contestant, other, metric) }
}
