package cli_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/internal/setup/cli"
)

// The error of an invalid flag names the kind of value that the flag takes.
func TestFlagFaults(t *testing.T) {
	t.Parallel()
	root := func(cli.Environment) *cobra.Command {
		c := &cobra.Command{Use: "tool", RunE: func(*cobra.Command, []string) error { return nil }}
		c.Flags().Int("workers", 0, "")
		c.Flags().Int("retries", 25, "")
		c.PersistentFlags().Int64("bytes", 0, "")
		c.Flags().Float64("capacity", 0, "")
		c.Flags().Duration("in", time.Hour, "")
		c.Flags().Bool("wait", false, "")
		c.Flags().String("name", "", "")
		return c
	}
	for arg, want := range map[string]string{
		"--workers=x":   `--workers: "x" must be a whole number, e.g. 20`,
		"--workers=1.5": `--workers: "1.5" must be a whole number, e.g. 20`,
		"--workers=010": `--workers: "010" is octal for some programs: write it without the first 0`,
		"--workers=-07": `--workers: "-07" is octal for some programs: write it without the first 0`,
		"--bytes=0_10":  `--bytes: "0_10" is octal for some programs: write it without the first 0`,
		"--bytes=x":     `--bytes: "x" must be a whole number, e.g. 20`,
		"--retries=":    `--retries: "" must be a whole number, e.g. 25`,
		"--retries=99999999999999999999": `--retries: "99999999999999999999" is too large or too small; it must be a whole ` +
			`number, e.g. 25`,
		"--capacity=lots": `--capacity: "lots" must be a number, e.g. 1.5`,
		"--in=5":          `--in: "5" must be a time with its unit, e.g. 90s, 5m or 1h30m`,
		"--wait=perhaps":  `--wait: "perhaps" must be true or false`,
		"--workers":       `--workers: needs a value, a whole number, e.g. 20`,
		"--name":          `--name: needs a value`,
		"--wrokers=1":     `unknown flag: --wrokers; did you mean "--workers"?`,
		"--nonsense=1":    `unknown flag: --nonsense`,
	} {
		var out, errs bytes.Buffer
		code := cli.Run(t.Context(), root, []string{arg}, cli.Environment{
			Getenv: func(string) string { return "" },
			Out:    &out, Err: &errs,
		})
		see := "; see"
		if strings.HasSuffix(want, "?") {
			see = " See"
		}
		if want = "tool: " + want + see + " \"tool --help\"\n"; code != cli.ExitUsage || errs.String() != want {
			t.Errorf("%s: exit %d: %s, want %s", arg, code, errs.String(), want)
		}
	}
}
