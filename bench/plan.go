package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// printPlan lists the runs of each contestant and work, and their approximate duration.
func printPlan(out io.Writer, turns []turn) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(format string, a ...any) { _, _ = fmt.Fprintf(w, format, a...) } // Flush returns the error
	var whole time.Duration
	for i := 0; i < len(turns); {
		runs, took := 0, time.Duration(0)
		for first := turns[i].work.Name; i < len(turns) && turns[i].work.Name == first; i++ {
			runs++
			took += estimate(turns[i])
		}
		whole += took
		line("%s\t%d runs\t%s\t\n", turns[i-1].work.Name, runs, took.Round(time.Second))
	}
	line("all\t%d runs\t%s\t\n", len(turns), whole.Round(time.Second))
	return w.Flush()
}
