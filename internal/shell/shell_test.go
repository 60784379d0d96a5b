package shell_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/shell"
)

// A real shell reads each word as the text that it stands for.
func TestWordsAreWhatTheyWere(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"openai", "openai:acme", "openai:a b", "a;exit 3", "$(exit 3)", "`exit 3`", "a'b", "'", "''", `"`, `\`,
		"a\nb", "*", "~",
		"#x", "", "a|b", "a&b", "$HOME", "${IFS}", "-rf", "=x", "!x", "{a,b}", "é", "a>b", "%s",
	} {
		command := exec.CommandContext(t.Context(), "sh", "-c", "printf '%s.' "+shell.Word(text))
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
