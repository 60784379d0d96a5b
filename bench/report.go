package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/spf13/cobra"

	"github.com/headway-go/headway/bench/field"
	"github.com/headway-go/headway/bench/goals"
	"github.com/headway-go/headway/bench/library"
	"github.com/headway-go/headway/bench/report"
	"github.com/headway-go/headway/bench/results"
	"github.com/headway-go/headway/bench/works"
)

// paths are the paths of results and report.
type paths struct{ docs string }

func (p *paths) flags(c *cobra.Command) {
	c.Flags().StringVar(&p.docs, "docs", "../docs",
		"folder of the report, benchmarks.md, and of benchmarks/ with plots and results.json")
}

func (p *paths) folder() string  { return filepath.Join(p.docs, "benchmarks") }
func (p *paths) results() string { return filepath.Join(p.folder(), "results.json") }
func (p *paths) page() string    { return filepath.Join(p.docs, "benchmarks.md") }

func reportCommand(env cli.Environment) *cobra.Command {
	var where paths
	var asJSON bool
	c := &cobra.Command{
		Use:   "report",
		Short: "Write the report again from the stored results",
		Long: `Report writes benchmarks.md and its plots from results.json, and prints the goals. The text below
"Notes" in the page stays. The exit code is 1 if a goal is missed.`,
		RunE: func(*cobra.Command, []string) error {
			file, err := results.Load(where.results())
			if err != nil {
				return err
			}
			if err = writePage(where, file); err != nil {
				return err
			}
			return judge(file, env.Out, asJSON, notMeasured)
		},
	}
	where.flags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print the goals as JSON")
	return c
}

// The texts for goals without a result.
const (
	notMeasured = "not measured yet"
	notRun      = "not run this time; bench report judges all stored results"
)

// conclude writes the page, and judges what the session measured.
func conclude(where paths, file *results.File, session string, out io.Writer) error {
	if err := writePage(where, file); err != nil {
		return err
	}
	return judge(file.Measured(session), out, false, notRun)
}

// writePage writes the page of all stored results.
func writePage(where paths, file *results.File) error {
	about, by := library.About()
	in := report.Input{
		File: file, Works: works.All(false), Reservations: about, Folder: "benchmarks", Notes: notes(where.page()),
	}
	for _, c := range field.All() {
		in.Contestants = append(in.Contestants, report.Contestant{Name: c.Name(), About: c.About()})
	}
	for _, name := range []string{library.Headway, library.OneByOne, library.Rate} {
		in.ReservationsBy = append(in.ReservationsBy, report.Contestant{Name: name, About: by[name]})
	}
	var err error
	if in.Plots, err = report.Plots(in, where.folder()); err != nil {
		return err
	}
	//nolint:gosec // a public file
	if err = os.WriteFile(where.page(), []byte(report.Markdown(in)), 0o644); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// judge prints the goals. It counts the goals without a result, with the text open, and does not count them as
// missed.
func judge(file *results.File, out io.Writer, asJSON bool, open string) error {
	checked := goals.Check(file)
	if err := printGoals(out, checked, asJSON, open); err != nil {
		return err
	}
	if goals.MissedAny(checked) {
		return &cli.ShownError{Summary: "not all goals are reached"}
	}
	return nil
}

func printGoals(out io.Writer, checked []goals.Checked, asJSON bool, why string) error {
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(checked)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	open := 0
	for _, c := range checked {
		if c.Verdict == goals.Open {
			open++
			continue
		}
		if _, err := fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", c.Work, c.Goal, c.Measured, c.Verdict); err != nil {
			return err
		}
	}
	if open > 0 {
		if _, err := fmt.Fprintf(w, "%d of %d goals: %s\n", open, len(checked), why); err != nil {
			return err
		}
	}
	return w.Flush()
}

// notes returns the hand-written text of the existing page.
func notes(page string) string {
	text, err := os.ReadFile(page) //nolint:gosec // the page that the user names
	if err != nil {
		return "" // there is no page yet
	}
	_, rest, found := strings.Cut(string(text), "\n## Notes\n")
	if !found {
		return ""
	}
	kept, _, _ := strings.Cut(rest, "\n## ")
	return kept
}
