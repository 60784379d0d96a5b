package main

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/setup/cli"

	"github.com/headway-go/headway/bench/results"
	"github.com/headway-go/headway/bench/works"
)

// twoSessions returns a file in which an old session missed a goal of "burst", and a new one measured "slow" with the
// given share.
func twoSessions(share float64) *results.File {
	f := &results.File{Sessions: map[string]results.Session{"old": {Date: "2026-01-01"}, "new": {Date: "2026-01-02"}}}
	f.Add(results.Result{
		Work: "burst", Contestant: works.Headway, Session: "old", Metrics: map[string]float64{results.Share: .5},
	})
	f.Add(results.Result{
		Work: "slow", Contestant: works.Headway, Session: "new", Metrics: map[string]float64{results.Share: share},
	})
	return f
}

// A run of one work reports no goals of other works, neither on the screen nor by the exit code.
func TestARunJudgesWhatItRan(t *testing.T) {
	t.Parallel()
	where := paths{docs: t.TempDir()}
	var out bytes.Buffer
	if err := conclude(where, twoSessions(.999), "new", &out); err != nil {
		t.Errorf("nothing that was run missed its goal: %v", err)
	}
	if text := out.String(); strings.Contains(text, "MISSED") || !strings.Contains(text, "99.9 %  reached") ||
		!strings.Contains(text, " goals: not run this time") {
		t.Errorf("the goals:\n%s", text)
	}
	var told *cli.ShownError
	if err := conclude(where, twoSessions(.9), "new", &out); !errors.As(err, &told) {
		t.Errorf("a missed goal of this run: %v", err)
	}
	page, err := os.ReadFile(where.page())
	if err != nil || !strings.Contains(string(page), "| a | limit used >= 99.5 % | 50.0 % | 1 | **missed** |") {
		t.Errorf("the page lacks earlier results: %v", err)
	}
}

// The page and bench report judge all stored results.
func TestTheReportJudgesAllThatIsStored(t *testing.T) {
	t.Parallel()
	where := paths{docs: t.TempDir()}
	if err := twoSessions(.999).Save(where.results()); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	code := cli.Run(t.Context(), rootCommand, []string{"report", "--docs", where.docs}, cli.Environment{
		Getenv: func(string) string { return "" }, Out: &out, Err: &errs,
	})
	if code != cli.ExitFailed || !strings.Contains(out.String(), "MISSED") ||
		!strings.Contains(out.String(), " goals: not measured yet") {
		t.Errorf("exit %d: %s%s", code, out.String(), errs.String())
	}
	page, err := os.ReadFile(where.page())
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		"| a | limit used >= 99.5 % | 50.0 % | 1 | **missed** |", "| b | limit used >= 99.5 % | 99.9 % | 1 | reached |",
	} {
		if !strings.Contains(string(page), row) {
			t.Errorf("%q is not in the page", row)
		}
	}
}
