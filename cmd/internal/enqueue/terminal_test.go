package enqueue

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/test/testenv"
)

// No command prints a character that a terminal obeys, whatever its arguments and the data of the services. Each
// command must be listed here.
func TestNoCommandPrintsWhatATerminalObeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const esc = testenv.Escapes
		good := filepath.Join(t.TempDir(), "in"+esc+".jsonl")
		if err := os.WriteFile(good, []byte(chats(2)), 0o600); err != nil {
			t.Fatal(err)
		}
		faulty := write(t, "faulty.jsonl",
			`{"custom_id":"`+esc+`","method":"\u202e\u009b","url":"\u001b[2J"}`+"\n"+esc+"\n"+
				`{"custom_id":"\u202ea","method":"GET","url":"http://\u202e.example/","headers":{"A\u009b":"${\u202e}"}}`+"\n")
		calls := map[string][][]string{
			"enqueue": {
				{"hi", "--limit", "openai", "--key", "\u202e\u009b2J"},
				{"hi", "--limit", esc},
				{"--body", esc, "--limit", "openai"},
				{"hi", "--limit", "openai", "--at", esc},
			},
			"batch": {
				{good, "--limit", "openai:\u202e\u009b"},
				{good, "--limit", "openai", "--json", "--queue", esc},
				{faulty, "--limit", "openai"},
				{esc, "--limit", "openai"},
			},
			"status":  {{}, {"--json"}, {esc}},
			"results": {{esc, "--out", "-"}, {"0", "--out", esc + "/x"}},
			"retry":   {{esc, "--failed"}},
			"cancel":  {{esc}},
			"answer":  {{esc}, {"x", "--queue", esc}},
		}
		for _, path := range testenv.Commands(rootCommand(cli.Environment{})) {
			if len(calls[path]) == 0 {
				t.Errorf("command %q is not tried", path)
			}
			for _, args := range calls[path] {
				args = append(strings.Fields(path), args...)
				c := callWith(t, w.redis, w.env, "", append(args, configOf(path, w.config)...)...)
				if found := testenv.Obeyed(c.out + c.err); found != "" || c.out+c.err == "" {
					t.Errorf("%q: %s", args, found)
				}
			}
		}
	})
}

// configOf returns the flag with the file, for commands that read one.
func configOf(path, file string) []string {
	if path == "answer" {
		return nil
	}
	return []string{"--config", file}
}
