package shell_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/headway-go/headway/internal/text/shell"
)

// A real shell reads each word as the text that it stands for.
func TestWordsAreWhatTheyWere(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"openai", "openai:acme", "openai:a b", "a;exit 3", "$(exit 3)", "`exit 3`", "a'b", "'", "''", `"`, `\`,
		"a\nb", "*", "~",
		"#x", "", "a|b", "a&b", "$HOME", "${IFS}", "-rf", "=x", "!x", "{a,b}", "é", "a>b", "%s",
		"a<b", "(a)", "~root", "[a]", "?", "a\tb", "A=b", "^x",
	} {
		command := exec.CommandContext(t.Context(), "sh", "-c", "printf '%s.' "+shell.Word(text)) //gate:ok a shell
		said, err := command.Output()
		if got := strings.TrimSuffix(string(said), "."); err != nil || got != text {
			t.Errorf("%q became %q: %v", text, got, err)
		}
	}
	for _, text := range []string{"openai:acme", "default/5f1c-2", "a.b@c%d"} {
		if shell.Word(text) != text {
			t.Errorf("%q is quoted: %s", text, shell.Word(text))
		}
	}
}

// A real shell gives a command its argument as the last of its words, and a parser of flags takes it for an argument.
func TestCommandsTakeTheirArgument(t *testing.T) {
	t.Parallel()
	for _, argument := range []string{
		"5f0c-1-0", "-1-0", "--all", "-rf", "--", "-; exit 3", "a b", "$(exit 3)", "-$(exit 3)", "", "'", "-'`exit 3`", "=x",
	} {
		line := shell.Command("parsed", argument, "--key", "-k; x", "--failed")
		script := `parsed() { printf '%s\n' "$@"; }; ` + line
		said, err := exec.CommandContext(t.Context(), "sh", "-c", script).Output() //gate:ok a shell
		if err != nil {
			t.Errorf("%q: %s: %v", argument, line, err)
			continue
		}
		flags := pflag.NewFlagSet("parsed", pflag.ContinueOnError)
		key, failed := flags.String("key", "", ""), flags.Bool("failed", false, "")
		err = flags.Parse(strings.Split(strings.TrimSuffix(string(said), "\n"), "\n"))
		if err != nil || *key != "-k; x" || !*failed || flags.NArg() != 1 || flags.Arg(0) != argument {
			t.Errorf("%q: %s: %q, %v", argument, line, flags.Args(), err)
		}
	}
	for _, c := range [][2]string{
		{shell.Command("headway retry", "5f0c", "--failed"), "headway retry 5f0c --failed"},
		{shell.Command("headway batch", "-", "--limit", "openai"), "headway batch - --limit openai"},
		{shell.Command("headway explain", "-x"), "headway explain -- '-x'"},
		{shell.Command("headway results", "a;b", "--out", "-"), "headway results 'a;b' --out -"},
	} {
		if c[0] != c[1] {
			t.Errorf("got %s, want %s", c[0], c[1])
		}
	}
}
