package report_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headway-go/headway/bench/report"
	"github.com/headway-go/headway/bench/results"
	"github.com/headway-go/headway/bench/works"
)

func input() report.Input {
	f := &results.File{
		Sessions: map[string]results.Session{
			"s": {Date: "2026-01-01", Commit: "abc", Set: map[string]string{"CPU": "a good one"}},
		},
	}
	for i, share := range []float64{.9, .998, .999} {
		f.Add(results.Result{
			Work: "burst", Contestant: works.Headway, Repetition: i, Session: "s",
			Metrics: map[string]float64{results.Share: share, results.Deliveries: 2, results.Done: 1},
			Series:  map[string][]int{"fast": {110, 100, 100}},
		})
	}
	return report.Input{
		File: f, Works: works.All(false), Folder: "benchmarks", Notes: "A remark.",
		Contestants: []report.Contestant{
			{Name: works.Headway, About: "This project."}, {Name: "other", About: "Did nothing."},
		},
	}
}

func TestThePageHoldsMediansGoalsNotesAndSetUp(t *testing.T) {
	t.Parallel()
	page := report.Markdown(input())
	for _, wanted := range []string{
		"| a | limit used >= 99.5 % | 99.8 % | 3 | reached |", "| headway | 3 | 100 % | 99.8 % |", "| headway | 3 | 2.00 |",
		"## Notes\n\nA remark.", "| CPU | a good one |", "commit abc",
		"| b | limit used >= 99.5 % | - | 0 | not measured |",
	} {
		if !strings.Contains(page, wanted) {
			t.Errorf("the page lacks %q:\n%s", wanted, page)
		}
	}
	if strings.Contains(page, "| other | 0 |") || strings.Contains(page, "## (b)") {
		t.Error("the page has rows or works that were not measured")
	}
}

func TestThePageNamesWorksWithResultsFromBeforeTheyChanged(t *testing.T) {
	t.Parallel()
	in := input()
	if page := report.Markdown(in); strings.Contains(page, "not run again") {
		t.Errorf("no work changed, but the page names some:\n%s", page)
	}
	in.File.Add(results.Result{Work: "gone", Contestant: works.Headway, Session: "s"})
	in.File.Add(results.Result{Work: "reservations", Contestant: works.Headway, Session: "s"})
	for i := range in.Works {
		switch in.Works[i].Name {
		case "burst":
			in.Works[i].Changed = "2026-01-02"
		case "slow":
			in.File.Add(results.Result{Work: "slow", Contestant: works.Headway, Session: "s"})
			in.Works[i].Changed = "2026-01-01"
		}
	}
	if page := report.Markdown(in); !strings.Contains(page, "figures are of before:\nburst, gone.\n\n## Goals") {
		t.Errorf("the page does not name burst and gone alone:\n%s", page)
	}
}

func TestPlotsAreDrawnOfWhatThereIs(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "benchmarks")
	drawn, err := report.Plots(input(), folder)
	if err != nil {
		t.Fatal(err)
	}
	if len(drawn) != 1 || len(drawn["burst"]) != 2 {
		t.Fatalf("drawn: %v, want two of burst", drawn)
	}
	text, err := os.ReadFile(filepath.Join(folder, "burst.svg"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "<svg") || !strings.Contains(string(text), "headway") {
		t.Errorf("burst.svg is no plot of headway: %.200s", text)
	}
}
