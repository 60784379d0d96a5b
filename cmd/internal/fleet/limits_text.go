package fleet

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/headway-go/headway/internal/products/explained"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/state"
	"github.com/headway-go/headway/reservations"
)

// barWidth is that of a level's bar, in letters.
const barWidth = 16

// screen is where a command shows what it found: with bars and bold print on a terminal, plainly elsewhere.
type screen struct {
	io.Writer

	bars, bold bool
	columns    int // zero where nothing has to fit
}

func screenOf(env cli.Environment) screen {
	terminal := cli.IsTerminal(env.Out)
	bold := terminal && env.Getenv("NO_COLOR") == ""
	return screen{Writer: env.Out, columns: cli.Columns(env.Out), bars: terminal, bold: bold}
}

func (s screen) title(text string) string {
	if s.bold {
		return "\x1b[1m" + text + "\x1b[0m"
	}
	return text
}

// printLimits shows all limits, each with its buckets.
func printLimits(s screen, l state.Limits) {
	for i, limit := range l.Limits {
		for j, b := range limit.Buckets {
			if i+j > 0 {
				fmt.Fprintln(s)
			}
			printBucket(s, b)
		}
		if limit.Place != "" {
			fmt.Fprintf(s, "  this limit is %s\n", cli.Line(limit.Place))
		}
		for _, text := range limit.Differs {
			fmt.Fprintf(s, "  other settings: %s\n", cli.Line(text))
		}
		if limit.More {
			fmt.Fprintf(s, "\nTasks wait for more than %d buckets of %s; name one to see it.\n", state.WaitlistsMost,
				limit.Limit)
		}
	}
}

// printStuck shows what does not go on and is no matter of one bucket. A pause stands with the buckets of its tasks.
func printStuck(s screen, limits []state.Limit, problems []state.Problem) {
	held := func(queue string) bool {
		return slices.ContainsFunc(limits, func(l state.Limit) bool {
			return slices.ContainsFunc(l.Buckets, func(b state.Bucket) bool { return b.Held[queue] > 0 })
		})
	}
	for _, p := range problems {
		if p.Severity != state.News && p.Bucket == "" && (p.Queue == "" || !held(p.Queue)) {
			fmt.Fprintln(s)
			printProblem(s, p)
		}
	}
}

// printBucket shows one bucket: its waitlist, its meters, and what is out of the ordinary.
func printBucket(s screen, b state.Bucket) {
	fmt.Fprintf(s, "%s  %s\n", s.title(cli.Line(b.Bucket)), waitsText(b))
	for _, line := range cli.Table(b.Meters, max(0, s.columns-len("  ")), meterHeads(), s.meterCells) {
		fmt.Fprintln(s, "  "+line)
	}
	if len(b.Flows) > 0 {
		fmt.Fprintf(s, "  %s\n", flowsText(b))
	}
	if p, stops := b.Problem(); stops {
		printProblem(s, p)
	}
	if len(b.Paused) > 0 {
		printProblem(s, b.Pause())
	}
	if b.Override != "" {
		fmt.Fprintf(s, "  override: %s\n", cli.Line(b.Override))
	}
	if len(b.Shards) > 0 {
		fmt.Fprintf(s, "  %d shards share this evenly\n", len(b.Shards))
	}
}

// printProblem shows what does not go on, and what ends that.
func printProblem(s screen, p state.Problem) {
	what, remedy := explained.Problem(p)
	fmt.Fprintf(s, "  %s\n  %s\n", cli.Line(what), cli.Line(remedy))
}

// meterHeads are the columns of a bucket's meters. If they do not fit, levels have no bars, then AHEAD has no time,
// then there is no AHEAD.
func meterHeads() []cli.Column {
	return []cli.Column{
		{Head: "METER", Until: 3},
		{Head: "RATE", Until: 3},
		{Head: "LEVEL", Until: 3},
		{Head: "PROMISED", Until: 3},
		{Head: "AHEAD", Until: 2},
		{Head: "WAITING", Until: 3},
	}
}

func (s screen) meterCells(shown state.Meter, level int) []string {
	m := shown.View
	s.bars = s.bars && level == 0
	if m.Kind == reservations.KindInFlight {
		return []string{m.Name, "-", s.flight(m), "-", "-", some(shown.Waiting)}
	}
	if level > 1 {
		m.AheadIn = 0
	}
	return []string{
		m.Name, rateText(m), s.level(m), some(shown.Promised), aheadText(m), some(shown.Waiting),
	}
}

// flowsText is how many tasks of each flow wait.
func flowsText(b state.Bucket) string {
	var texts []string
	for _, f := range b.Flows {
		texts = append(texts, cli.Line(f.String())+" "+strconv.Itoa(f.Tasks))
	}
	if more := b.FlowCount - len(b.Flows); more > 0 {
		texts = append(texts, cli.Plural(more, "smaller one", "smaller ones"))
	}
	return "tasks by flow: " + strings.Join(texts, ", ")
}

// waitsText says how many tasks wait for the bucket and for how long.
func waitsText(b state.Bucket) string {
	switch {
	case b.Waiting+b.Promoted == 0 && !b.InUse && filling(b):
		return "not in use, and fills up"
	case b.Waiting+b.Promoted == 0 && !b.InUse:
		return "not in use, so it is full"
	case b.Waiting+b.Promoted == 0:
		return "no task waits"
	case b.Waiting == 0:
		return cli.Plural(b.Promoted, "task is", "tasks are") + " promoted, none waits"
	}
	text := cli.Plural(b.Waiting, "task waits", "tasks wait")
	if b.Promoted > 0 {
		text += fmt.Sprintf(", %d more promoted", b.Promoted)
	}
	if b.EndIn == nil {
		return text
	}
	if b.Waiting == 1 {
		return text + ", expected to start " + dueText(*b.EndIn)
	}
	return text + ", the last is expected to start " + dueText(*b.EndIn)
}

// filling says whether a meter is shown below its capacity, as in a bucket in Redis, which begins empty.
func filling(b state.Bucket) bool {
	return slices.ContainsFunc(b.Meters, func(m state.Meter) bool {
		return cli.Amount(m.View.Level) != cli.Amount(m.View.Cap())
	})
}

// level is how full a meter is.
func (s screen) level(m reservations.MeterView) string {
	left := 0. // a pure queue keeps nothing
	if m.Cap() > 0 {
		left = m.Level / m.Cap()
	}
	return s.bar(left, fmt.Sprintf("%s of %s", cli.Amount(m.Level), cli.Amount(m.Cap())))
}

// flight is how many calls run.
func (s screen) flight(m reservations.MeterView) string {
	return s.bar(m.Level/m.Cap(), fmt.Sprintf("in flight %s of %s", cli.Amount(m.Cap()-m.Level), cli.Amount(m.Cap())))
}

// bar shows what is left of a meter before its text.
func (s screen) bar(left float64, text string) string {
	if !s.bars {
		return text
	}
	full := int(math.Round(barWidth * min(1, max(0, left))))
	if left < 1 {
		full = min(full, barWidth-1)
	}
	return strings.Repeat("█", full) + strings.Repeat("░", barWidth-full) + " " + text
}

// some is an amount of tokens, or a dash for none.
func some(tokens float64) string {
	if tokens == 0 {
		return "-"
	}
	return cli.Amount(tokens)
}

// aheadText is how far the promises of a meter go into deficit, of what it may promise, and when that will have come
// back.
func aheadText(m reservations.MeterView) string {
	text := some(m.Ahead)
	if m.MaxReserved != 0 {
		text += " of " + cli.Amount(max(0, m.MaxReserved))
	}
	if m.AheadIn > 0 {
		text += ", back in " + cli.Seconds(m.AheadIn.Seconds())
	}
	return text
}

// table prints rows below a line, in columns of the same width. Control characters in their texts are shown, not
// executed.
func (s screen) table(rows [][]string) {
	for _, line := range cli.Aligned(rows) {
		fmt.Fprintln(s, "  "+line)
	}
}

func dueText(seconds float64) string {
	if seconds <= 0 {
		return "now"
	}
	return "in " + cli.Seconds(seconds)
}
