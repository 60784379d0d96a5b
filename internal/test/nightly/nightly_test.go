package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A night with a step of each result leaves a report that says why, and names the red step in its error.
func TestReport(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "night")
	err := runAll(t.Context(), folder, []step{
		{"good", "all is well", "true", time.Hour},
		{"bad", "a test fails", "echo '--- FAIL: TestX (1.00s)'; echo noise; exit 1", time.Hour},
		{"away", "a database answers", "echo 'vuln: NOT CHECKED: no database'; exit 77", time.Hour},
		{"endless", "it ends", "exec sleep 3600", time.Nanosecond},
	})
	if err == nil || !strings.HasPrefix(err.Error(), "red: bad, endless; ") {
		t.Errorf("error %v", err)
	}
	page, err := os.ReadFile(filepath.Join(folder, "report.md"))
	for _, want := range []string{
		"| good | all is well | green | ", "| bad | a test fails | red | ", "| away | a database answers | not run | ",
		"\n    --- FAIL: TestX (1.00s)\n", "NOT CHECKED", "    ended after 1ns\n",
		`    scripts/services run bash -c "exec sleep 3600"`,
	} {
		if err != nil || !strings.Contains(string(page), want) {
			t.Errorf("%q is missing: %v\n%s", want, err, page)
		}
	}
	if text, err := os.ReadFile(filepath.Join(folder, "report.json")); err != nil ||
		!strings.Contains(string(text), `"result": "not run"`) || strings.Contains(string(page), "\n    noise") {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	all := steps(1)
	if got, err := choose(all, ""); err != nil || len(got) != len(all) {
		t.Errorf("%d steps, %v", len(got), err)
	}
	if got, err := choose(all, "weeks,demo"); err != nil || len(got) != 2 || got[0].Name != "weeks" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := choose(all, "weeks,nothing"); err == nil || !strings.Contains(err.Error(), `"nothing"`) {
		t.Errorf("error %v", err)
	}
}
