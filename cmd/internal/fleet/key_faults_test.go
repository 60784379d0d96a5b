package fleet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/headway-go/headway/internal/setup/cli"
)

// A key or a secret with a control character within it is a fault at the start, which names its variable and not its
// value. Check does not ask the provider then. A line end around it is trimmed.
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
		file, variable, value string
		sound                 bool
	}{
		"a line end":            {plain, "OPENAI_API_KEY", "sk-hidden\n", true},
		"of Windows":            {several, "WEST_KEY", "sk-hidden\r\n", true},
		"a secret, a line end":  {secrets, "TOKEN", "hidden\n", true},
		"within":                {plain, "OPENAI_API_KEY", "sk-\x00hidden", false},
		"two lines":             {plain, "OPENAI_API_KEY", "sk-hidden\nsk-hidden", false},
		"within, of a provider": {several, "WEST_KEY", "sk-\x7fhidden", false},
		"within a secret":       {secrets, "TOKEN", "hid\nhidden", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := map[string]string{
				"REDIS_URL": "redis://" + miniredis.RunT(t).Addr(), "OPENAI_BASE_URL": base, "OPENAI_API_KEY": "sk-other",
			}
			env[c.variable] = c.value
			fault := c.variable + " has a line end or another control character within its value"
			code, out, errs := command(t, env, "check", "--config", c.file)
			if strings.Contains(errs, fault) == c.sound || code == cli.ExitOK || strings.Contains(out+errs, "hidden") {
				t.Errorf("check: exit %d: %s%s", code, out, errs)
			}
			if asked := strings.Contains(out+errs, "not reachable"); asked != c.sound && c.variable != "TOKEN" {
				t.Errorf("check asked the provider: %v: %s%s", asked, out, errs)
			}
			if c.sound {
				return
			}
			code, out, errs = command(t, env, "worker", "--config", c.file)
			if code != cli.ExitUsage || !strings.Contains(errs, fault) || strings.Contains(out+errs, "hidden") {
				t.Errorf("worker: exit %d: %s", code, errs)
			}
		})
	}
}
