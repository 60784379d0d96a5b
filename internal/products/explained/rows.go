package explained

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/text/shell"
	"github.com/headway-go/headway/scheduler"
)

// Rows are what the sentence rests on: a name and a text each. A name is empty where the text goes on from the row
// before.
func (t Task) Rows() [][]string {
	rows := [][]string{{"task", fmt.Sprintf("%s (%s) in queue %s", t.ID, t.Type, t.Queue)}, {"state", t.stateText()}}
	row := func(name, text string) {
		if text != "" {
			rows = append(rows, []string{name, text})
		}
	}
	row("since", cli.Moment(t.Since, t.Now))
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
		row("tenant", t.tenantText())
		row("flow", t.flowText())
		row("priority", t.priorityText())
		row("also in", strings.Join(t.Waits.Others, ", "))
	}
	row("failures", t.failuresText())
	if t.Refusals > 0 {
		row("refusals", fmt.Sprintf("%d in a row", t.Refusals))
	}
	if t.Waits != nil {
		row("net", cli.Moment(t.Net, t.Now)+": "+t.netText())
	}
	rows = append(rows, cli.TextRows("cause", t.Cause)...)
	rows = append(rows, cli.TextRows("error", t.LastError)...)
	if t.SentAgain != "" {
		row("again", "the request was sent again as task "+t.SentAgain)
	}
	if t.State == "archived" {
		row("record", "`"+shell.Command("headway dead show", t.ID)+
			"` has its payload and how it ended, where the workers keep dead tasks")
	}
	rows = append(rows, cli.TextRows("bucket", t.Problem)...)
	return rows
}

// stateText is asynq's word for where the task is, and its position in the waitlist.
func (t Task) stateText() string {
	w := t.Waits
	switch {
	case w == nil:
		return t.State
	case t.Reason == scheduler.ReasonPromoted:
		return t.State + " in asynq; promoted, " + cli.Plural(w.Of, "task waits", "tasks wait") + " behind it"
	}
	return fmt.Sprintf("%s in asynq; position %d of %d in the waitlist of %s", t.State, w.Position, w.Of, w.Bucket)
}

// aheadText is what the tasks before it take.
func (t Task) aheadText() string {
	text := cli.Tokens(t.Waits.TokensAhead)
	switch {
	case text == "":
		return "no task"
	case !t.Waits.AheadExact:
		return "about " + text
	}
	return text
}

// reservedText says whether the bucket has promised the task's tokens, and what else helps it.
func (t Task) reservedText() string {
	text := "its tokens are promised"
	if !t.Waits.Reserved {
		text = "none of its tokens are promised: it starts in its turn all the same"
	}
	if t.Waits.Urgent {
		text += "; urgent, so it may use the headroom"
	}
	return text
}

// tenantText is the tenant of the task, and its weight; empty for a task without one.
func (t Task) tenantText() string {
	if t.Waits.Tenant == "" || t.Waits.TenantWeight == 0 {
		return cli.Printable(t.Waits.Tenant)
	}
	return cli.Printable(t.Waits.Tenant) + ", weight " + cli.Amount(t.Waits.TenantWeight)
}

// flowText is the flow of the task, and how it shares its limit with others; empty for a flow without a name.
func (t Task) flowText() string {
	w := t.Waits
	if w.Flow == "" {
		return ""
	}
	text := cli.Printable(cmp.Or(t.FlowName, w.Flow))
	if w.Weight > 0 {
		text += ", weight " + cli.Amount(w.Weight)
	}
	if w.FlowTasks > 0 {
		text += ", " + cli.Plural(w.FlowTasks, "task", "tasks")
	}
	return text + "; " + cli.Plural(w.Flows, "named flow waits", "named flows wait")
}

// priorityText is the priority that the task counts for; empty where the limit has none.
func (t Task) priorityText() string {
	w := t.Waits
	if w.Priority == "" || w.PriorityWeight == 0 {
		return cli.Printable(w.Priority)
	}
	return cli.Printable(w.Priority) + ", weight " + cli.Amount(w.PriorityWeight)
}

// untilText is when the task goes on; where its queue is paused, not before.
func (t Task) untilText() string {
	text := cli.Moment(t.Until, t.Now)
	if text != "" && t.Resume != "" && t.Reason != scheduler.ReasonStore { // such tasks go on as soon as the store answers
		text += ", at the earliest"
	}
	return text
}

// netText is what asynq does with a task that no dispatcher promotes.
func (t Task) netText() string {
	if t.Resume != "" {
		return "asynq puts it into its queue then, should no dispatcher promote it"
	}
	return "asynq delivers it then, should no dispatcher promote it"
}

func (t Task) failuresText() string {
	if t.Reason == scheduler.ReasonCompleted || t.Reason == scheduler.ReasonArchived {
		return strconv.Itoa(t.Failures)
	}
	return fmt.Sprintf("%d; at most %s left", t.Failures, cli.Plural(max(0, t.MaxRetry-t.Failures), "retry", "retries"))
}

// chargeLines are the task's charges, one a line: the charges of its headers, or else of its waitlist.
func (t Task) chargeLines() []string {
	charges := t.Charges
	if len(charges) == 0 && t.Waits != nil && len(t.Waits.Tokens) > 0 {
		return []string{t.Waits.Bucket + ": " + cli.Tokens(t.Waits.Tokens)}
	}
	var lines []string
	for _, c := range charges {
		lines = append(lines, c.Bucket().String()+": "+cli.Tokens(c.Tokens))
	}
	return lines
}
