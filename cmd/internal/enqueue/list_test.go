package enqueue

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/setup/cli"
)

func someFigures() []figures {
	at := time.Date(2026, 11, 21, 23, 0, 0, 0, time.Local)
	progress := func(done int, last time.Time, b batches.Batch) batches.Progress {
		b.Created = at
		return batches.Progress{Batch: b, Counts: batches.Counts{Done: done, Last: last}}
	}
	left, none := 3725.0, 0
	return []figures{
		{
			Progress: progress(12345, at, batches.Batch{
				ID: "0123456789abcdef", Name: "/data/exports/requests-of-november.jsonl", Limit: "tenants:acme, openai",
				State: batches.StateOpen,
			}),
			Waiting: 87655, Left: &left, LeftBy: byLimit,
		},
		{
			Progress: progress(0, time.Time{}, batches.Batch{
				ID: "0123456799abcdef", Name: "in.jsonl", Limit: "openai", State: batches.StateOpen, Queue: "default",
			}),
			Waiting: 300, causes: causes{Workers: &none},
		},
		{Progress: progress(300, time.Time{}, batches.Batch{
			ID: "f4261f973c1e0c74", Name: "in.jsonl", Limit: "openai", State: batches.StateEnded,
		})},
	}
}

// On a pipe the list has all columns in full.
func TestListOnAPipe(t *testing.T) {
	t.Parallel()
	want := []string{
		"BATCH             CREATED               FILE                                      LIMIT                 " +
			"DONE  " +
			" FAILED  WAITING  END",
		"0123456789abcdef  2026-11-21T23:00:00Z  /data/exports/requests-of-november.jsonl  tenants:acme, openai  " +
			"12345 " +
			" 0       87655    at least 1h2m left, by the limit",
		`0123456799abcdef  2026-11-21T23:00:00Z  in.jsonl                                  openai                ` +
			`0      0       300      no worker takes from queue default; start one`,
		"f4261f973c1e0c74  2026-11-21T23:00:00Z  in.jsonl                                  openai                " +
			"300   " +
			" 0       0        all have ended",
	}
	for _, columns := range []int{0, 200} {
		if diff := cmp.Diff(want, list(someFigures(), columns)); diff != "" {
			t.Errorf("%d columns: %s", columns, diff)
		}
	}
}

// No line is wider than the terminal, and batch names are complete.
func TestListFitsTheTerminal(t *testing.T) {
	t.Parallel()
	all := someFigures()
	lines := list(all, 80)
	text := strings.Join(lines, "\n")
	for _, want := range []string{
		"012345678 ", "012345679 ", "f4261f97 ", "requests-of-", "…", "12345",
		"at least 1h2m", "no worker", "ended",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	for columns, header := range map[int]string{
		80: "BATCH CREATED FILE DONE FAILED WAITING END", 60: "BATCH FILE DONE FAILED WAITING END",
		50: "BATCH DONE FAILED WAITING END",
	} {
		text = strings.Join(list(all, columns), "\n")
		if first, _, _ := strings.Cut(text, "\n"); strings.Join(strings.Fields(first), " ") != header {
			t.Errorf("%d columns: %s", columns, text)
		}
	}
	text = strings.Join(list(all[1:], 45), "\n")
	for _, want := range []string{"WAITING", "END", "300", "no worker", "ended"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	for _, columns := range []int{80, 60, 40} {
		lines = list(all, columns)
		for i := range all {
			lines = append(lines, all[i].whole(columns)...)
		}
		for _, l := range lines {
			if utf8.RuneCountInString(l) > columns {
				t.Errorf("%d columns: %q", columns, l)
			}
		}
	}
}

// An impossible batch name is one error message.
func TestNamesThatNoBatchHas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for name, want := range map[string]string{
			"": "headway: the name of the batch is empty; `headway status` lists the newest\n",
			"in.jsonl": "headway: \"in.jsonl\" is no name of a batch, which is short and has only letters, " +
				"digits, - and _; `headway status` lists the newest\n",
			strings.Repeat("a", 999): "headway: \"" + strings.Repeat("a", 80) + "\" is no name",
			"ffff":                   "headway: batches: unknown batch: \"ffff\"; `headway status` lists the newest\n",
		} {
			if c := w.call(t, "status", name); c.code != cli.ExitUsage || !strings.HasPrefix(c.err, want) {
				t.Errorf("%q: exit %d: %s%s", name, c.code, c.out, c.err)
			}
		}
	})
}

// Batches that can't be read hide no others.
func TestListBesideMalformedBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		good := w.opened(t, 2)
		w.insert(t, "batches", "malformed-record", bson.M{"created": "no time", "state": "open"}, nil)
		w.insert(t, "batches", "malformed-result", bson.M{"created": time.Now(), "state": "open", "lines": 1}, nil)
		w.insert(t, "results", "malformed-result/000000001", bson.M{"custom": "c1", "status": 5}, nil)
		for _, args := range [][]string{{"status"}, {"status", "--json"}} {
			c := w.call(t, args...)
			if c.code != cli.ExitFailed || !strings.Contains(c.out, good) ||
				!strings.Contains(c.err, "malformed-record") || !strings.Contains(c.err, "malformed-result") {
				t.Errorf("%q: exit %d: %s%s", args, c.code, c.out, c.err)
			}
		}
	})
}
