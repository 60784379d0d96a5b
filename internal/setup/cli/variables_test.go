package cli_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/internal/setup/cli"
)

// A variable counts without what a file of secrets or a copy has around it.
func TestVariablesAreTrimmed(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"":                                 "",
		"mongodb://h/a":                    "mongodb://h/a",
		"mongodb://h/a\n":                  "mongodb://h/a",
		"mongodb://h/a\r\n":                "mongodb://h/a",
		" \tmongodb://h/a \n\n":            "mongodb://h/a",
		"\n":                               "",
		"\u00a0key\u2028":                  "key",
		"a key with spaces":                "a key with spaces",
		"two\nlines":                       "two\nlines",
		"\ufeffkept: it is no white space": "\ufeffkept: it is no white space",
	} {
		var got string
		code := cli.Run(t.Context(), func(env cli.Environment) *cobra.Command {
			return &cobra.Command{Use: "test", RunE: func(*cobra.Command, []string) error {
				got = env.Getenv("V")
				return nil
			}}
		}, nil, cli.Environment{
			Getenv: func(name string) string { return map[string]string{"V": value}[name] },
			Out:    &bytes.Buffer{}, Err: &bytes.Buffer{},
		})
		if got != want || code != cli.ExitOK {
			t.Errorf("%q: got %q, want %q", value, got, want)
		}
	}
}

// A control character within a value is a fault that names the variable, and not the value.
func TestVariablesThatCannotBe(t *testing.T) {
	t.Parallel()
	for value, faulty := range map[string]bool{
		"": false, "sk-1": false, "a b": false, "é": false,
		"sk-1\nsk-2": true, "sk-1\r\nX-A: b": true, "sk\x00": true, "sk\x7f1": true, "sk\u00851": true, "a\tb": true,
	} {
		err := cli.CheckVariable(func(string) string { return value }, "OPENAI_API_KEY")
		if (err != nil) != faulty || err != nil && (!strings.HasPrefix(err.Error(), "OPENAI_API_KEY ") ||
			strings.Contains(err.Error(), "sk")) {
			t.Errorf("%q: %v", value, err)
		}
	}
}
