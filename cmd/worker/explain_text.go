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
func (t explainedTask) print(s screen) {
	fmt.Fprintf(s, "%s\n\n", s.title(cli.Line(t.Summary)))
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
		row("ahead", t.aheadText())
		row("reserved", t.reservedText())
		row("flow", t.flowText())
		row("priority", t.priorityText())
		row("also in", strings.Join(t.Waits.Others, ", "))
	}
	row("failures", t.failuresText())
	if t.Refusals > 0 {
		row("refusals", fmt.Sprintf("%d in a row", t.Refusals))
	}
	if t.Waits != nil {
		row("net", moment(t.Net, t.Now)+": "+t.netText())
	}
	rows = append(rows, textRows("cause", t.Cause)...)
	rows = append(rows, textRows("error", t.LastError)...)
	if t.State == "archived" {
		row("record", "`worker dead show "+t.ID+"` has its payload and how it ended, where the workers keep dead tasks")
	}
	rows = append(rows, textRows("bucket", t.Problem)...)
	s.table("  ", rows)
	if t.Bucket != nil {
		fmt.Fprintln(s)
		printBucket(s, *t.Bucket)
	}
}

// stateText is asynq's word for where the task is, and its position in the waitlist.
func (t explainedTask) stateText() string {
	w := t.Waits
	switch {
	case w == nil:
		return t.State
	case t.Reason == scheduler.ReasonPromoted:
		return t.State + " in asynq; promoted, " + plural(w.Of, "task waits", "tasks wait") + " behind it"
	}
	return fmt.Sprintf("%s in asynq; position %d of %d in the waitlist of %s", t.State, w.Position, w.Of, w.Bucket)
}

// aheadText is what the tasks before it take.
func (t explainedTask) aheadText() string {
	text := tokensText(t.Waits.TokensAhead)
	switch {
	case text == "":
		return "no task"
	case !t.Waits.AheadExact:
		return "about " + text
	}
	return text
}

// reservedText says whether the bucket has promised the task's tokens, and what else helps it.
func (t explainedTask) reservedText() string {
	text := "its tokens are promised"
	if !t.Waits.Reserved {
		text = "none of its tokens are promised: max_reserved or max_wait leaves no room for that; it starts in its " +
			"turn all the same"
	}
	if t.Waits.Urgent {
		text += "; urgent, so it may use the headroom"
	}
	return text
}

// flowText is the flow of the task, and how it shares its limit with others; empty for a flow without a name.
func (t explainedTask) flowText() string {
	w := t.Waits
	if w.Flow == "" {
		return ""
	}
	text := cli.Printable(w.Flow)
	if w.Weight > 0 {
		text += ", weight " + amount(w.Weight)
	}
	if w.FlowTasks > 0 {
		text += ", " + plural(w.FlowTasks, "task", "tasks")
	}
	return text + "; " + plural(w.Flows, "named flow waits", "named flows wait")
}

// priorityText is the priority that the task counts for; empty where the limit has none.
func (t explainedTask) priorityText() string {
	w := t.Waits
	if w.Priority == "" || w.PriorityWeight == 0 {
		return cli.Printable(w.Priority)
	}
	return cli.Printable(w.Priority) + ", weight " + amount(w.PriorityWeight)
}

// untilText is when the task goes on; where its queue is paused, not before.
func (t explainedTask) untilText() string {
	text := moment(t.Until, t.Now)
	if text != "" && t.Resume != "" && t.Reason != scheduler.ReasonStore { // those go on as soon as the store answers
		text += ", at the earliest"
	}
	return text
}

// netText is what asynq does with a task that no dispatcher promotes.
func (t explainedTask) netText() string {
	if t.Resume != "" {
		return "asynq puts it into its queue then, should no dispatcher promote it"
	}
	return "asynq delivers it then, should no dispatcher promote it"
}

func (t explainedTask) failuresText() string {
	if t.Reason == scheduler.ReasonCompleted || t.Reason == scheduler.ReasonArchived {
		return strconv.Itoa(t.Failures)
	}
	return fmt.Sprintf("%d; it is tried again %d times at most", t.Failures, max(0, t.MaxRetry-t.Failures))
}

// chargeLines are the task's charges, one a line: those of its headers, or else what its waitlist has.
func (t explainedTask) chargeLines() []string {
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
