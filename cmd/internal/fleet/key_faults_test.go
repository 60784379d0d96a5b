package fleet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/headway-go/headway/internal/cli"
)

// A key or a secret that no header can have is a fault at the start, which names its variable and not its value. Check
// does not ask the provider then.
func TestKeysThatCannotBeSent(t *testing.T) {
	t.Parallel()
	const base = "http://127.0.0.1:1/v1"
	write := func(text string) string {
		file := filepath.Join(t.TempDir(), "headway.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	plain := write("limits: {a: {in_flight: 1}}")
	several := write("limits: {a: {in_flight: 1}}\n" +
		"providers: {p: {base_url: \"" + base + "\", key: WEST_KEY, limits: [a]}}")
	secrets := write("limits: {a: {in_flight: 1}}\nhttp: {allow_hosts: [h], secrets: {TOKEN: [h]}}")
	for name, c := range map[string]struct {
		file string
		env  map[string]string
		want string
	}{
		"a line end": {
			plain, map[string]string{"OPENAI_API_KEY": "sk-hidden\n"}, "OPENAI_API_KEY: the key ends with a line end",
		},
		"of Windows": {
			plain, map[string]string{"OPENAI_API_KEY": "sk-hidden\r\n"}, "OPENAI_API_KEY: the key ends with a line end",
		},
		"inside": {
			plain, map[string]string{"OPENAI_API_KEY": "sk-\x00hidden"}, "OPENAI_API_KEY: the key has a control character",
		},
		"of a provider": {
			several, map[string]string{"WEST_KEY": "sk-hidden\n"}, "WEST_KEY: the key ends with a line end",
		},
		"a secret": {
			secrets,
			map[string]string{"OPENAI_API_KEY": "sk-other", "TOKEN": "hidden\n"},
			"secrets.TOKEN: its value ends with a line end",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.env["REDIS_URL"] = "redis://" + miniredis.RunT(t).Addr()
			c.env["OPENAI_BASE_URL"] = base
			code, out, errs := command(t, c.env, "worker", "--config", c.file)
			if code != cli.ExitUsage || !strings.Contains(errs, c.want) || strings.Contains(out+errs, "hidden") {
				t.Errorf("worker: exit %d: %s", code, errs)
			}
			_, problem, _ := strings.Cut(c.want, ": ")
			code, out, errs = command(t, c.env, "check", "--config", c.file)
			if code == cli.ExitOK || !strings.Contains(errs, problem) || strings.Contains(out+errs, "hidden") {
				t.Errorf("check: exit %d: %s%s", code, out, errs)
			}
			if name != "a secret" && strings.Contains(out+errs, "not reachable") {
				t.Errorf("check asked the provider: %s%s", out, errs)
			}
		})
	}
}
