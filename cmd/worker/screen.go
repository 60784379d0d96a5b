package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/cli"
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
	return screen{Writer: env.Out, columns: cli.Columns(env.Out), bars: terminal, bold: terminal && env.Getenv("NO_COLOR") == ""}
}

func (s screen) title(text string) string {
	if s.bold {
		return "\x1b[1m" + text + "\x1b[0m"
	}
	return text
}

// print shows all limits, each with its buckets.
func (l shownLimits) print(s screen) {
	for i, limit := range l.Limits {
		for j, b := range limit.Buckets {
			if i+j > 0 {
				fmt.Fprintln(s)
			}
			b.print(s)
		}
		if limit.More {
			fmt.Fprintf(s, "\nTasks wait for more than %d buckets of %s; name one to see it.\n", linesMost, limit.Limit)
		}
	}
	if l.Store > 0 {
		fmt.Fprintf(s, "\n%s for the store, which could not be asked.\n", waitText(l.Store))
	}
}

// print shows one bucket: who waits, its meters, and what is out of the ordinary.
func (b shownBucket) print(s screen) {
	fmt.Fprintf(s, "%s  %s\n", s.title(b.Bucket), b.waits())
	rows := [][]string{{"METER", "RATE", "LEVEL", "LATE", "PLAN", "LINE"}}
	marked, notes := gaps(b.meters)
	for _, m := range b.meters {
		owed := []string{owing(m.Late, 0), owing(m.Plan, m.PlanIn), owing(m.Line, m.LineIn)}
		for i, text := range owed {
			if marked[m.Name] && text != owing(0, 0) {
				owed[i] = gapMark + text
			}
		}
		rows = append(rows, append([]string{m.Name, rateText(m.Meter) + kindText(m.Kind), s.level(m)}, owed...))
	}
	s.table("  ", rows)
	for _, note := range notes {
		fmt.Fprintln(s, "  "+note)
	}
	if b.Blocked > 0 {
		fmt.Fprintf(s, "  blocked for %s: a provider refused a call\n", inText(b.Blocked))
	}
	if b.Override != "" {
		fmt.Fprintf(s, "  override: %s\n", b.Override)
	}
	if speed := speedText(b.Speed); speed != "" {
		fmt.Fprintf(s, "  the limit was changed while tasks wait: their clock runs at %s times its speed\n", speed)
	}
	if len(b.Shards) > 0 {
		fmt.Fprintf(s, "  %d shards share this evenly\n", len(b.Shards))
	}
}

// waits says who waits for the bucket and for how long.
func (b shownBucket) waits() string {
	var text string
	switch {
	case b.Waiting > 0 && b.FirstIn != nil:
		text = waitText(b.Waiting)
		if b.Waiting == 1 {
			text += ", due " + dueText(*b.FirstIn)
		} else {
			text += fmt.Sprintf(", the first is due %s, the last %s", dueText(*b.FirstIn), dueText(*b.LastIn))
		}
	case b.waiting:
		text = "no task stands in line"
	case !b.InUse:
		return "not in use, so it is full"
	default:
		text = "nobody waits"
	}
	if b.DoneIn > 0 && (b.waiting || b.Waiting > 0) {
		text += "; the backlog is done in " + inText(b.DoneIn)
	}
	return text
}

func waitText(n int) string {
	if n == 1 {
		return "1 task waits"
	}
	return fmt.Sprintf("%d tasks wait", n)
}

// level is how full a meter is.
func (s screen) level(m reservations.MeterView) string {
	text := fmt.Sprintf("%s of %s", amount(m.Level), amount(m.Cap()))
	if !s.bars {
		return text
	}
	full := int(math.Round(barWidth * min(1, max(0, m.Level/m.Cap()))))
	return strings.Repeat("█", full) + strings.Repeat("░", barWidth-full) + " " + text
}

// owing is an amount that is owed to tasks, and before it how long it takes to come.
func owing(tokens float64, in time.Duration) string {
	switch {
	case tokens == 0:
		return "-"
	case in == 0:
		return amount(tokens)
	}
	return inText(in.Seconds()) + " (" + amount(tokens) + ")"
}

func kindText(k reservations.Kind) string {
	if k == reservations.KindWindow {
		return " window"
	}
	return ""
}

// table prints rows in columns of the same width. What their texts hold for a terminal is shown, not done.
func (s screen) table(indent string, rows [][]string) {
	for _, line := range cli.Aligned(rows) {
		fmt.Fprintln(s, indent+line)
	}
}

// amount is a number of tokens with what a person wants to see of it.
func amount(n float64) string {
	if math.Abs(n) >= 100 {
		n = math.Round(n)
	}
	return strconv.FormatFloat(math.Round(n*100)/100, 'f', -1, 64)
}

// speedText is how fast the clock of a line runs, empty where that is its usual speed as far as anybody wants to see: after a limit has been
// set and unset it is not 1 to the last digit.
func speedText(speed float64) string {
	switch text := amount(speed); {
	case speed == 0 || text == "1":
		return ""
	case speed < 0.1:
		return strconv.FormatFloat(speed, 'g', 2, 64)
	default:
		return text
	}
}

// inText is a time in seconds, rounded.
func inText(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d >= 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}

func dueText(seconds float64) string {
	if seconds <= 0 {
		return "now"
	}
	return "in " + inText(seconds)
}
