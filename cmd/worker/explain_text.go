package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
)

// print shows the sentence, then what it rests on, then the bucket.
func (t toldTask) print(s screen) {
	fmt.Fprintf(s, "%s\n\n", s.title(cli.Printable(t.Summary)))
	rows := [][]string{{"task", fmt.Sprintf("%s (%s) in queue %s", t.ID, t.Type, t.Queue)}, {"state", t.stateText()}}
	row := func(name, text string) {
		if text != "" {
			rows = append(rows, []string{name, text})
		}
	}
	row("since", moment(t.Since, t.Now))
	row("until", t.untilText())
	if t.Resume != "" {
		row("paused", "nothing of queue "+t.Queue+" starts until it is resumed: `"+t.Resume+"`")
	}
	for i, line := range t.chargeLines() {
		row([]string{"charges", ""}[min(i, 1)], line)
	}
	if t.Waits != nil {
		for _, other := range t.Waits.Others {
			row("also", fmt.Sprintf("%s in %s", other.Place.State, other.Name()))
		}
	}
	row("failures", t.failuresText())
	if t.Refusals > 0 {
		row("refusals", fmt.Sprintf("%d in a row", t.Refusals))
	}
	if t.Waits != nil {
		row("net", moment(t.Net, t.Now)+": "+t.netText())
	}
	row("cause", indented(t.Cause))
	row("error", indented(t.LastError))
	if t.State == "archived" {
		row("record", "`worker dead show "+t.ID+"` has its payload and how it ended, where the workers keep dead tasks")
	}
	row("bucket", indented(t.Problem))
	s.table("  ", rows)
	if t.Bucket != nil {
		fmt.Fprintln(s)
		t.Bucket.print(s)
	}
}

// stateText is asynq's word for where the task is, and ours for how it waits.
func (t toldTask) stateText() string {
	if t.Waits == nil {
		return t.State
	}
	means := map[reservations.State]string{
		reservations.StateNew: "has not been given anything yet", reservations.StateTicket: "has a place behind max_reserved",
		reservations.StateAgain:    "has a place behind max_reserved, for the second time",
		reservations.StateReserved: "was given a time in the plan", reservations.StateLate: "came at its time and found no room",
	}[t.Waits.State]
	if t.Reason == scheduler.ReasonUpstream {
		means = "comes first when the provider's time is over"
	}
	return fmt.Sprintf("%s in asynq; %s: %s", t.State, t.Waits.State, means)
}

// untilText is when the task goes on; where its queue is paused, not before.
func (t toldTask) untilText() string {
	text := moment(t.Until, t.Now)
	if text != "" && t.Resume != "" && t.Reason != scheduler.ReasonStore { // those go on as soon as the store answers
		text += ", at the earliest"
	}
	return text
}

// netText is what asynq does with a task that no worker has woken.
func (t toldTask) netText() string {
	if t.Resume != "" {
		return "asynq puts it into its queue then, should no worker wake it"
	}
	return "asynq delivers it then, should no worker wake it"
}

func (t toldTask) failuresText() string {
	if t.Reason == scheduler.ReasonCompleted || t.Reason == scheduler.ReasonArchived {
		return strconv.Itoa(t.Failures)
	}
	return fmt.Sprintf("%d; it is tried again %d times at most", t.Failures, max(0, t.MaxRetry-t.Failures))
}

// chargeLines are the task's charges, one a line: those of its headers, or else what its place tells.
func (t toldTask) chargeLines() []string {
	charges := t.Charges
	if len(charges) == 0 && t.Waits != nil && len(t.Waits.Tokens) > 0 {
		return []string{t.Waits.Bucket + ": " + tokensText(t.Waits.Tokens)}
	}
	var lines []string
	for _, c := range charges {
		lines = append(lines, c.Bucket()+": "+tokensText(c.Tokens))
	}
	return lines
}

func tokensText(tokens reservations.Tokens) string {
	var parts []string
	for _, meter := range slices.Sorted(maps.Keys(tokens)) {
		parts = append(parts, meter+" "+amount(tokens[meter]))
	}
	return strings.Join(parts, ", ")
}

// moment is a time, and how far it is from now.
func moment(at, now time.Time) string {
	if at.IsZero() {
		return ""
	}
	text := at.UTC().Format("2006-01-02T15:04:05.000Z")
	switch d := at.Sub(now); {
	case d > 0:
		return text + ", in " + inText(d.Seconds())
	case d < 0:
		return text + ", " + inText(-d.Seconds()) + " ago"
	default:
		return text + ", now"
	}
}

// indented keeps the lines of a text together in its column.
func indented(text string) string {
	return strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n"+strings.Repeat(" ", 12))
}
