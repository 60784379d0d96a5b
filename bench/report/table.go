package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/headway-go/headway/bench/library"
	"github.com/headway-go/headway/bench/results"
	"github.com/headway-go/headway/bench/works"
)

// column shows one metric.
type column struct {
	title, metric, format string
	scale                 float64 // zero means 1
}

// outcome returns the columns of the results, costs the columns of the costs. Columns without a value are left out.
func outcome() []column {
	const percent = "%.1f %%"
	return []column{
		{"done", results.Done, "%.0f %%", 100},
		{"limit used", results.Share, percent, 100},
		{"slow limit used", results.ShareSlow, percent, 100},
		{"worst 1 s", results.Worst1s, percent, 100},
		{"worst 10 s", results.Worst10s, percent, 100},
		{"over", results.Over, "%.1f", 0},
		{"finish", results.Finish, "%.2f s", 0},
		{"rate", results.Rate, "%.0f/s", 0},
		{"gap", results.Gap, "%.2f s", 0},
		{"lag p50", results.LagP50, "%.0f ms", 0},
		{"lag p99", results.LagP99, "%.0f ms", 0},
		{"late p50", results.LateP50, "%.1f ms", 0},
		{"late p99", results.LateP99, "%.1f ms", 0},
		{"places lost p99", results.LostP99, "%.0f", 0},
		{"most", results.LostMax, "%.0f", 0},
	}
}

func costs() []column {
	return []column{
		{"deliveries", results.Deliveries, "%.2f", 0},
		{"Redis", results.RedisTrips, "%.2f", 0},
		{"of them to enqueue", results.RedisEnq, "%.2f", 0},
		{"MongoDB", results.MongoTrips, "%.2f", 0},
		{"commands", results.Commands, "%.1f/s", 0},
		{"round trips", results.Reads, "%.1f/s", 0},
		{"CPU", results.CPU, "%.1f s", 0},
		{"CPU a task", results.TaskCPU, "%.2f ms", 0},
		{"memory", results.Peak, "%.0f MB", 0},
	}
}

func writeWork(b *strings.Builder, in Input, w works.Work) {
	var took []Contestant
	for _, c := range in.Contestants {
		if len(in.File.Of(w.Name, c.Name)) > 0 {
			took = append(took, c)
		}
	}
	if len(took) == 0 {
		return
	}
	fmt.Fprintf(b, "## (%s) %s\n\n%s\n\n", w.Letter, w.Name, w.About)
	writeTable(b, in.File, w, took, outcome())
	writeTable(b, in.File, w, took, costs())
	for _, plot := range in.Plots[w.Name] {
		fmt.Fprintf(b, "![%s](%s/%s)\n\n", w.Name, in.Folder, plot)
	}
}

func writeTable(b *strings.Builder, f *results.File, w works.Work, took []Contestant, all []column) {
	shown := slices.DeleteFunc(all, func(col column) bool {
		return !slices.ContainsFunc(took, func(c Contestant) bool { return len(f.Values(w.Name, c.Name, col.metric)) > 0 })
	})
	if len(shown) == 0 {
		return
	}
	b.WriteString("| contestant | runs |")
	for _, col := range shown {
		fmt.Fprintf(b, " %s |", col.title)
	}
	b.WriteString("\n|---|---:|" + strings.Repeat("---:|", len(shown)) + "\n")
	for _, c := range took {
		fmt.Fprintf(b, "| %s | %d |", c.Name, len(f.Of(w.Name, c.Name)))
		for _, col := range shown {
			fmt.Fprintf(b, " %s |", cell(f, w.Name, c.Name, col))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

func cell(f *results.File, work, contestant string, col column) string {
	value, of := f.Median(work, contestant, col.metric)
	if of == 0 {
		return "-"
	}
	if col.scale > 0 {
		value *= col.scale
	}
	return fmt.Sprintf(col.format, value)
}

func writeReservations(b *strings.Builder, in Input) {
	if len(in.File.Of("reservations", library.Headway)) == 0 {
		return
	}
	fmt.Fprintf(b, "## (g) reservations\n\n%s\n\n| | runs |", in.Reservations)
	var metrics []string
	for _, buckets := range []int{1, library.Many} {
		for _, callers := range library.Callers() {
			metrics = append(metrics, library.Metric(buckets, callers))
			what := "one bucket"
			if buckets > 1 {
				what = "10 000 buckets"
			}
			fmt.Fprintf(b, " %s, %d |", what, callers)
		}
	}
	b.WriteString("\n|---|---:|" + strings.Repeat("---:|", len(metrics)) + "\n")
	for _, c := range in.ReservationsBy {
		fmt.Fprintf(b, "| %s: %s | %d |", c.Name, c.About, len(in.File.Of("reservations", c.Name)))
		for _, m := range metrics {
			fmt.Fprintf(b, " %s |", cell(in.File, "reservations", c.Name, column{metric: m, format: "%.0f/s"}))
		}
		b.WriteString("\n")
	}
	for _, plot := range in.Plots["reservations"] {
		fmt.Fprintf(b, "\n![reservations](%s/%s)\n", in.Folder, plot)
	}
}
