package capacity

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/setup/cli"
)

// rowsMost is how many flows and meters a table shows.
const rowsMost = 12

// print shows the report as tables.
func (r report) print(env cli.Environment) {
	out := env.Out
	fmt.Fprintln(out, r.summary())
	table := func(rows [][]string) {
		fmt.Fprintln(out)
		for _, line := range cli.Aligned(rows) {
			fmt.Fprintln(out, line)
		}
	}
	table(r.waitRows())
	table(r.meterRows())
	fmt.Fprintln(out, "\n"+r.scarceText())
	if len(r.Variants) > 0 {
		table(r.variantRows())
	}
}

// summary says when all is done, and how much ran and waited.
func (r report) summary() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s from %s", cli.Plural(r.Calls, "call", "calls"), r.From.UTC().Format(time.RFC3339))
	switch left := r.Calls - r.Done - r.Failed; {
	case left > 0:
		fmt.Fprintf(&b, "\nnot done: %d calls still wait or run after 10 years", left)
	default:
		fmt.Fprintf(&b, "\ndone after   %s", span(r.Ended))
		if late := r.Ended - r.Arrived; r.Arrived > 0 {
			fmt.Fprintf(&b, ", %s after the last call arrived", span(late))
		}
	}
	fmt.Fprintf(&b, "\nwaiting      at most %d calls", r.Waiting.Calls)
	if r.Waiting.Calls > 0 {
		fmt.Fprintf(&b, ", after %s", span(r.Waiting.At))
	}
	if r.Arrived > 0 {
		fmt.Fprintf(&b, "; %d when the last one arrived", r.Left)
	}
	workers := (r.Running.Calls + r.concurrency - 1) / max(1, r.concurrency)
	fmt.Fprintf(&b, "\nrunning      at most %d calls at once: %s with concurrency %d", r.Running.Calls,
		cli.Plural(workers, "worker", "workers"), r.concurrency)
	if r.Refused > 0 {
		fmt.Fprintf(&b, "\nrefused      %s by the provider, %d calls failed", cli.Plural(r.Refused, "time", "times"),
			r.Failed)
	}
	return b.String()
}

// waitRows are the waits of all calls, and of each flow.
func (r report) waitRows() [][]string {
	cells := func(name string, calls int, w waits) []string {
		return []string{name, strconv.Itoa(calls), wait(w.P50), wait(w.P90), wait(w.P99), wait(w.Max)}
	}
	rows := [][]string{
		{"WAIT", "CALLS", "P50", "P90", "P99", "MAX"}, cells("all", r.Done+r.unended(), r.Wait),
	}
	if len(r.Flows) < 2 {
		return rows
	}
	flows := slices.Clone(r.Flows)
	slices.SortStableFunc(flows, func(a, b flow) int { return cmp.Compare(b.Calls, a.Calls) })
	for _, f := range flows[:min(len(flows), rowsMost)] {
		rows = append(rows, cells(flowName(f.Flow), f.Calls, f.waits))
	}
	return more(rows, len(flows))
}

// unended is how many calls started and have not ended.
func (r report) unended() int {
	started := 0
	for _, f := range r.Flows {
		started += f.Calls
	}
	return started - r.Done
}

// more says how many rows are left out.
func more(rows [][]string, all int) [][]string {
	if n := all - rowsMost; n > 0 {
		rows = append(rows, []string{fmt.Sprintf("and %d more (--json)", n)})
	}
	return rows
}

// meterRows is the use of each meter.
func (r report) meterRows() [][]string {
	rows := [][]string{{"METER", "USE", "CALLS WAITED FOR IT", "TOKENS"}}
	for _, m := range r.Meters[:min(len(r.Meters), rowsMost)] {
		tokens := "-"
		if m.Tokens > 0 {
			tokens = cli.Amount(m.Tokens)
		}
		rows = append(rows, []string{m.Bucket + " " + m.Meter, percent(m.Use), span(m.Short), tokens})
	}
	return more(rows, len(r.Meters))
}

// scarceText says which meter is the scarce one.
func (r report) scarceText() string {
	if r.Scarce == nil {
		if len(r.Meters) == 0 {
			return "No call started."
		}
		return fmt.Sprintf("No meter was scarce. The most used one is %s %s.", r.Meters[0].Bucket, r.Meters[0].Meter)
	}
	return fmt.Sprintf("The scarce meter is %s %s: calls waited for it most of the time that they waited.",
		r.Scarce.Bucket, r.Scarce.Meter)
}

// variantRows compare other limits.
func (r report) variantRows() [][]string {
	cells := func(name string, x result) []string {
		done := span(x.Ended)
		if x.Done+x.Failed < x.Calls {
			done = "never"
		}
		return []string{name, done, wait(x.Wait.P50), wait(x.Wait.P99), wait(x.Wait.Max), strconv.Itoa(x.Waiting.Calls)}
	}
	rows := [][]string{{"IF", "DONE AFTER", "P50", "P99", "MAX", "WAITING"}, cells("as it is", r.result)}
	for _, v := range r.Variants {
		if v.Result == nil {
			rows = append(rows, []string{v.Name, "not possible: " + cli.FirstLine(v.Problem, 80, "…")})
		} else {
			rows = append(rows, cells(v.Name, *v.Result))
		}
	}
	return rows
}

func percent(part float64) string { return fmt.Sprintf("%.1f %%", 100*part) }

// wait is a wait as people read it: milliseconds below ten seconds.
func wait(seconds float64) string {
	if seconds < .0005 {
		return "0s"
	}
	return span(seconds)
}

// span is a time with as many digits as a person wants.
func span(seconds float64) string {
	d := time.Duration(math.Round(seconds * float64(time.Second)))
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(10 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	}
	text := d.Round(time.Minute).String()
	return strings.TrimSuffix(text, "0s")
}
