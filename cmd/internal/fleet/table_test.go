package fleet

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/fleet/deadletter"
)

// columnsOf are the headers of a table, of which no line is wider than the terminal.
func columnsOf(t *testing.T, lines []string, columns int) string {
	t.Helper()
	for _, l := range lines {
		if n := utf8.RuneCountInString(l); columns > 0 && n > columns {
			t.Errorf("%d columns of %d: %s", n, columns, l)
		}
	}
	return strings.Join(strings.Fields(lines[0]), " ")
}

func TestLimitsTableFitsTheTerminal(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, time.March, 3, 12, 0, 0, 0, time.UTC)
	rows := []listed{
		{
			Limit: "openai", Meter: "requests", Configured: &listedRate{"500/m", 500}, Override: &listedRate{
				"250/m",
				250,
			},
			SetBy: "somebody@workstation-17", SetAt: &at,
		},
		{Limit: "openai", Meter: "tokens", Configured: &listedRate{"200000/m", 20000}},
		{
			Limit: "tenant", Key: "acme", Meter: "requests", Override: &listedRate{"10/m", 10}, SetBy: "ops",
			SetAt:   &at,
			Ignored: "no limit has such a meter",
		},
	}
	for columns, want := range map[int]string{
		0: "LIMIT METER KEY CONFIGURED SET BY AT", 200: "LIMIT METER KEY CONFIGURED SET BY AT",
		100: "LIMIT METER KEY CONFIGURED SET BY AT",
		80:  "LIMIT METER KEY CONFIGURED SET BY AT", 60: "LIMIT METER KEY CONFIGURED SET",
	} {
		text := limitsTable(rows, columns, false)
		if got := columnsOf(t, strings.Split(strings.TrimSuffix(text, "\n"), "\n"), columns); got != want {
			t.Errorf("%d columns: %s", columns, text)
		}
		if whole := columns == 0 || columns == 200; strings.Contains(text,
			"2026-03-03T12:00:00Z  ignored: no limit has such a meter") != whole {
			t.Errorf("%d columns: %s", columns, text)
		}
	}
	queue := []listed{{Limit: "a", Meter: "r", Configured: &listedRate{Rate: "60/m"}}}
	if text := limitsTable(queue, 30, false); !strings.Contains(text, "60/m, no burst") {
		t.Error(text)
	}
	want := `LIMIT   METER     KEY   CONFIGURED  SET             BY                    AT
openai  requests        500/m       250/m           somebody@workstatio…  Mar  3
openai  tokens          200000/m    -
tenant  requests  acme  -           10/m (ignored)  ops                   Mar  3
`
	if diff := cmp.Diff(want, limitsTable(rows, 80, false)); diff != "" {
		t.Error(diff)
	}
	if text := limitsTable(rows[:2], 80, false); strings.Contains(text, "KEY") {
		t.Error(text)
	}
	if text := limitsTable(rows, 60, true); strings.Count(text, "\x1b[1m") != 2 ||
		strings.Contains(text, "\x1b[1mopenai  tokens") {
		t.Errorf("%q", text)
	}
}

func TestDeadTableFitsTheTerminal(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, time.March, 3, 12, 0, 0, 0, time.UTC)
	failure := "openai: 401 Unauthorized: the key that was given is \x1b[2Jnot one of ours"
	tasks := []deadtasks.Task{
		{
			ID: "0b2f8a54-7d0c-4e6f-9c0e-3a8e0c6f2a11", Queue: "default", Type: "llm:call", State: deadtasks.StateDead,
			At: at, Error: failure, Attempts: make([]deadletter.Attempt, 3),
		},
		{
			ID: "batch-1", Queue: "bulk", Type: "llm:call", State: deadtasks.StateDead, At: at,
			Batch: "0123456789abcdef",
			Error: "no",
		},
	}
	for columns, want := range map[int]string{
		0: "ID QUEUE TYPE STATE AT ATTEMPTS ERROR", 200: "ID QUEUE TYPE STATE AT ATTEMPTS ERROR",
		110: "ID QUEUE TYPE AT ATTEMPTS ERROR", 80: "ID QUEUE AT ERROR", 60: "ID ERROR",
	} {
		lines := deadTable(tasks, columns)
		if got := columnsOf(t, lines, columns); got != want {
			t.Errorf("%d columns: %s", columns, strings.Join(lines, "\n"))
		}
		if !strings.Contains(lines[1], tasks[0].ID+"  ") || strings.Contains(lines[1], "\x1b") {
			t.Errorf("%d columns: %q", columns, lines[1])
		}
	}
	if whole := deadTable(tasks, 0); !strings.Contains(whole[1], "2026-03-03T12:00:00Z") ||
		!strings.Contains(whole[2], "dead (of batch 0123456789abcdef)") {
		t.Errorf("%q", whole)
	}
	want := []string{
		"ID                                    QUEUE    AT      ERROR",
		"0b2f8a54-7d0c-4e6f-9c0e-3a8e0c6f2a11  default  Mar  3  openai: 401 Unauthori…",
		"batch-1                               bulk     Mar  3  no",
	}
	if diff := cmp.Diff(want, deadTable(tasks, 77)); diff != "" {
		t.Error(diff)
	}
	tasks[1].State = deadtasks.StateFailing
	if lines := deadTable(tasks, 90); columnsOf(t, lines, 90) != "ID QUEUE STATE AT ERROR" {
		t.Error(strings.Join(lines, "\n"))
	}
}
