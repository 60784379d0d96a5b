package cli_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/internal/setup/cli"
)

// A command takes the arguments that it names, and its error says what is wrong. A group of commands shows its help.
func TestArguments(t *testing.T) {
	t.Parallel()
	root := func(cli.Environment) *cobra.Command {
		run := func(*cobra.Command, []string) error { return nil }
		root, group := &cobra.Command{Use: "tool"}, &cobra.Command{Use: "limits", Short: "the group"}
		group.AddCommand(
			&cobra.Command{Use: "list", RunE: run},
			&cobra.Command{Use: "set NAME", RunE: run, Args: cli.Named("NAME")},
			&cobra.Command{Use: "show [NAME]", RunE: run, Args: cli.Named("[NAME]")},
		)
		root.AddCommand(group)
		return root
	}
	for args, want := range map[string]string{
		"":                "",
		"limits":          "",
		"limits list":     "",
		"limits set a":    "",
		"limits show":     "",
		"limits show a":   "",
		"limits show a b": `wants [NAME]; got 2 arguments; see "tool limits show --help"`,
		"limits list a":   `takes no arguments; got "a"; see "tool limits list --help"`,
		"limits set":      `wants NAME; got 0 arguments; see "tool limits set --help"`,
		"limits set a b":  `wants NAME; got 2 arguments; see "tool limits set --help"`,
		"limits lits":     `unknown command "lits"; did you mean "list"? See "tool limits --help"`,
		"limts":           `unknown command "limts"; did you mean "limits"? See "tool --help"`,
		"limits nonsense": `unknown command "nonsense"; see "tool limits --help"`,
	} {
		var out, errs bytes.Buffer
		code := cli.Run(t.Context(), root, strings.Fields(args), cli.Environment{
			Getenv: func(string) string { return "" },
			Out:    &out, Err: &errs,
		})
		exit := cli.ExitOK
		if want != "" {
			want, exit = "tool: "+want+"\n", cli.ExitUsage
		}
		if code != exit || errs.String() != want {
			t.Errorf("%s: exit %d: %s, want %s", args, code, errs.String(), want)
		}
		if args == "limits" && !strings.Contains(out.String(), "list") {
			t.Errorf("no help: %s", out.String())
		}
	}
}
