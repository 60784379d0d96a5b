// Command nightly runs the steps of the night one after another, and writes a report with a row for each: report.md
// and report.json, beside the output of each step. `make nightly` runs it. A red row blocks nothing: it is a fault,
// with the command that shows it again.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	folder := flag.String("folder", "nightly", "write the report and the output of each step here")
	only := flag.String("only", "", "run these steps, separated by commas")
	list := flag.Bool("list", false, "print the steps, and run nothing")
	seed := flag.Int64("seed", time.Now().Unix()/int64((24*time.Hour).Seconds()), "seed of random fleets; today's day")
	flag.Parse()
	chosen, err := choose(steps(*seed), *only)
	switch {
	case err != nil:
	case *list:
		for _, s := range chosen {
			fmt.Printf("%-16s %s\n%-16s %s\n", s.Name, s.Shows, "", s.Command)
		}
	default:
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		err = runAll(ctx, *folder, chosen)
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "nightly:", err)
		os.Exit(1)
	}
}

// choose returns the steps with these names, separated by commas; none means all.
func choose(all []step, names string) ([]step, error) {
	if names == "" {
		return all, nil
	}
	var chosen []step
	for name := range strings.SplitSeq(names, ",") {
		at := slices.IndexFunc(all, func(s step) bool { return s.Name == name })
		if at < 0 {
			return nil, fmt.Errorf("there is no step %q: --list prints them", name)
		}
		chosen = append(chosen, all[at])
	}
	return chosen, nil
}

// runAll runs the steps. It writes the report after each, so that a night that is cut off leaves what it found. The
// error names the red steps.
func runAll(ctx context.Context, folder string, chosen []step) error {
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	night := report{Began: time.Now().UTC(), Commit: commit(ctx)}
	for i, s := range chosen {
		if ctx.Err() != nil {
			return fmt.Errorf("stopped before %s", s.Name)
		}
		fmt.Printf("%2d of %d  %-16s %s\n", i+1, len(chosen), s.Name, s.Shows)
		row, err := s.run(ctx, filepath.Join(folder, s.Name+".log"))
		if err != nil {
			return err
		}
		fmt.Printf("%9s %-16s %s after %.0f s\n", "", "", row.Result, row.Seconds)
		night.Rows = append(night.Rows, row)
		if err := night.write(folder); err != nil {
			return err
		}
	}
	if red := night.red(); red != nil {
		return fmt.Errorf("red: %s; see %s", strings.Join(red, ", "), filepath.Join(folder, "report.md"))
	}
	return nil
}

// commit names the commit that is tested, if it is known.
func commit(ctx context.Context) string {
	text, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}
