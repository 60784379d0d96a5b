// Package report writes what was measured for people: Markdown, with plots beside it.
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

// Contestant is one, for the report.
type Contestant struct{ Name, About string }

// Input is what the report is of.
type Input struct {
	File *results.File
	// Contestants and Works are all, in the order of the report.
	Contestants []Contestant
	Works       []works.Work
	// Reservations and ReservationsBy are the work without workers, and who takes part there.
	Reservations   string
	ReservationsBy []Contestant
	// Notes is text by hand, for the end: what was missed, and why.
	Notes string
	// Plots are the names of the files, by work, in the folder Folder, as seen from the report.
	Plots  map[string][]string
	Folder string
}

// Markdown is the whole report.
func Markdown(in Input) string {
	var b strings.Builder
	b.WriteString("# Benchmarks\n\n<!-- Written by `make bench`; the text below \"Notes\" is kept. -->\n\n" + intro)
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

const intro = "`make bench` runs all of this again, `make bench ONLY=name` a part, `make bench QUICK=1` a look; it writes this page. Every contestant gets the same tasks in the same\n" +
	"order, as many worker processes and handlers, a Redis server and a database of its own for each run, and calls the same provider, which takes down\n" +
	"when each call arrived, refuses nobody and answers within 5 ms. Contestants take turns within a repetition. Figures are medians of the runs that the tables name; ratios are taken within\n" +
	"a repetition. They tell of this machine; what to compare is the rows.\n\n"

const definitions = `## What the columns mean

| column | meaning |
|---|---|
| done | part of the tasks that had started when the run ended. Below 100 % it was cut off, after 2.5 times what a perfect contestant takes, or 40 s |
| limit used | tokens of all calls over what the limit allows from the first call to the last: burst + rate × time. To the cut for a run that was cut off; without the time that workers were down |
| worst 1 s, 10 s | the fullest window of that length as a part of what is allowed in it. Above 100 % the limit was broken |
| over | tokens above what is allowed, in the worst of all windows of any length. A call that the network brings a millisecond early is 0.1 at 100 a second |
| rate | starts a second; for sorting and backlogs, tasks a second that were given their places; with asynq-raw, delivered |
| finish | from the moment at which enqueueing begins to the last call |
| gap | the longest time without a call |
| deliveries | handlers entered (for Headway: deliveries of the queue, also those that it sends back before the handler) for each task that started |
| Redis | times that the server read from a client, for each task that started, enqueueing included; a pipeline counts once. What the same idle workers send is taken off, as it was measured before the tasks came |
| MongoDB | commands sent by producer and workers, for each task that started |
| lag | the k-th call behind the k-th of a perfect bucket that is full at the first call. It adds up what was lost before |
| late | start behind the time that the contestant itself had given |
| places lost | how many tasks that were enqueued later started earlier |
| commands | Redis commands a second of all workers together, those inside of scripts included; round trips: without those |
| CPU | seconds of all worker processes, their start included |
| CPU a task | of workers from the moment they were ready, and of Redis |
| memory | the largest resident memory of one worker |

`

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
	names := slices.SortedFunc(maps.Keys(f.Sessions), func(a, b string) int { return strings.Compare(f.Sessions[a].Date, f.Sessions[b].Date) })
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
		fmt.Fprintf(b, "%s, commit %s%s: %s.\n\n| | |\n|---|---|\n", s.Date, s.Commit, kind, strings.Join(slices.Sorted(maps.Keys(covers)), ", "))
		for _, key := range slices.Sorted(maps.Keys(s.Set)) {
			fmt.Fprintf(b, "| %s | %s |\n", key, s.Set[key])
		}
		b.WriteString("\n")
	}
}
