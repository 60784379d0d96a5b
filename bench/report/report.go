// Package report writes the results for people: Markdown, with plots.
package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/headway-go/headway/bench/goals"
	"github.com/headway-go/headway/bench/results"
	"github.com/headway-go/headway/bench/works"
)

// Contestant is a contestant's description for the report.
type Contestant struct{ Name, About string }

// Input is the content of the report.
type Input struct {
	File *results.File
	// Contestants and Works are all of them, in the order of the report.
	Contestants []Contestant
	Works       []works.Work
	// Reservations and ReservationsBy are the work without workers, and its contestants.
	Reservations   string
	ReservationsBy []Contestant
	// Notes is hand-written text for the end: the missed goals, and why.
	Notes string
	// Plots are the names of the files, by work, in Folder, relative to the report.
	Plots  map[string][]string
	Folder string
}

// Markdown returns the whole report.
func Markdown(in Input) string {
	var b strings.Builder
	b.WriteString("# Benchmarks\n\n<!-- Written by `make bench`; the text below \"Notes\" is kept. -->\n\n" + intro)
	writeStale(&b, in)
	writeGoals(&b, goals.Check(in.File))
	if in.Notes != "" {
		b.WriteString("\n## Notes\n\n" + strings.TrimSpace(in.Notes) + "\n")
	}
	b.WriteString("\n## Contestants\n\n| name | what it is |\n|---|---|\n")
	for _, c := range in.Contestants {
		fmt.Fprintf(&b, "| %s | %s |\n", c.Name, c.About)
	}
	b.WriteString("\n")
	for _, w := range in.Works {
		writeWork(&b, in, w)
	}
	writeReservations(&b, in)
	b.WriteString("\n" + definitions)
	writeSessions(&b, in.File)
	return b.String()
}

const intro = "`make bench` runs all of this again, `make bench ONLY=name` a part, `make bench QUICK=1` small\n" +
	"works. It writes this page. Every contestant gets the same tasks in the same order, and as many\n" +
	"worker processes and handlers. Each run has a Redis server and a database of its own. All call the\n" +
	"same provider: it stores the arrival of each call, refuses none and answers within 5 ms. Contestants\n" +
	"take turns within a repetition. Figures are medians of the runs that the tables name; ratios are of\n" +
	"one repetition. The figures depend on this machine, so compare the rows.\n\n"

// writeStale names the works whose stored results were measured before the work changed, or was dropped.
func writeStale(b *strings.Builder, in Input) {
	changed := map[string]string{"reservations": ""}
	for _, w := range in.Works {
		changed[w.Name] = w.Changed
	}
	stale := map[string]bool{}
	for _, r := range in.File.Results {
		if since, listed := changed[r.Work]; !listed || in.File.Sessions[r.Session].Date < since {
			stale[r.Work] = true
		}
	}
	if len(stale) > 0 {
		fmt.Fprintf(b, "These works changed, or are gone, and were not run again; their figures are of before:\n%s.\n\n",
			strings.Join(slices.Sorted(maps.Keys(stale)), ", "))
	}
}

// definitions is a table, so each row is one line of the page.
const definitions = "## What the columns mean\n\n| column | meaning |\n|---|---|\n" +
	"| done | part of the tasks that started before the end of the run. A run below 100 % was cut off, after 2.5 " +
	"times the duration of a perfect contestant, or 40 s |\n" +
	"| limit used | tokens of all calls over the tokens that the limit allows from the first call to the last: " +
	"burst + rate × time. Until the cut, for a run that was cut off; without the time of the outage |\n" +
	"| worst 1 s, 10 s | the fullest window of that length, as a part of the limit. Above 100 % the limit was " +
	"exceeded |\n" +
	"| over | tokens above the limit, in the worst of all windows of any length. A call that arrives a " +
	"millisecond early is 0.1 at 100 a second |\n" +
	"| rate | starts a second; for placing, tasks enqueued a second |\n" +
	"| finish | from the beginning of enqueueing to the last call |\n" +
	"| gap | the longest time without a call |\n" +
	"| deliveries | handler calls per started task (for Headway: deliveries of the queue, even if the worker " +
	"sends the task back before its handler) |\n" +
	"| Redis | reads of the server from clients per started task, with enqueueing; a pipeline counts once. The " +
	"reads of the same idle workers, measured before the tasks, are subtracted |\n" +
	"| MongoDB | commands of producer and workers per started task |\n" +
	"| lag | the delay of the k-th call after the k-th call of a perfect bucket, which is full at the first call." +
	" It adds up all losses before |\n" +
	"| late | the delay after the contestant's own time for the start |\n" +
	"| places lost | how many tasks started earlier although they were enqueued later |\n" +
	"| commands | Redis commands a second of all workers together, with commands inside of scripts; round trips: " +
	"without them |\n" +
	"| CPU | seconds of all worker processes, with their start |\n" +
	"| CPU a task | of workers after they were ready, and of Redis; for backlogs and placing also of producer and Redis " +
	"to enqueue |\n" +
	"| memory | the largest resident memory of one worker |\n\n"

func writeGoals(b *strings.Builder, checked []goals.Checked) {
	b.WriteString("## Goals\n\n| work | goal | measured | runs | |\n|---|---|---|---|---|\n")
	for _, c := range checked {
		verdict := string(c.Verdict)
		if c.Verdict == goals.Missed {
			verdict = "**missed**"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %d | %s |\n", c.Work, c.Goal, c.Measured, c.Runs, verdict)
	}
}

func writeSessions(b *strings.Builder, f *results.File) {
	b.WriteString("## Set-up\n\n")
	names := slices.SortedFunc(maps.Keys(f.Sessions), func(a, b string) int {
		return strings.Compare(f.Sessions[a].Date, f.Sessions[b].Date)
	})
	for _, name := range names {
		s := f.Sessions[name]
		covers := map[string]bool{}
		for _, r := range f.Results {
			if r.Session == name {
				covers[r.Work] = true
			}
		}
		if len(covers) == 0 {
			continue
		}
		kind := ""
		if s.Quick {
			kind = ", quick"
		}
		fmt.Fprintf(b, "%s, commit %s%s: %s.\n\n| | |\n|---|---|\n", s.Date, s.Commit, kind,
			strings.Join(slices.Sorted(maps.Keys(covers)), ", "))
		for _, key := range slices.Sorted(maps.Keys(s.Set)) {
			fmt.Fprintf(b, "| %s | %s |\n", key, s.Set[key])
		}
		b.WriteString("\n")
	}
}
