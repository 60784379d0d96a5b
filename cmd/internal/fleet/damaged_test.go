package fleet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/connect"
)

// An override that was damaged by hand is ignored. All commands name it, and none says that it took it back.
func TestDamagedOverrides(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const stored = "headway:{buckets}:overrides"
		for name, c := range map[string]struct {
			damage func(document string) (id, damaged string)
			says   string
		}{
			"another ID": {
				func(d string) (string, string) { return "openai:acme/requests", d }, `"openai:acme/requests"`,
			},
			"another meter":     {func(d string) (string, string) { return "openai/tokens", d }, `"openai/tokens"`},
			"cut in the middle": {func(d string) (string, string) { return "openai/requests", d[:20] }, `"openai/requests"`},
			"no number":         {func(string) (string, string) { return "openai/requests", "oops" }, `"openai/requests"`},
		} {
			env, _ := memory(t)
			env["OPENAI_API_KEY"] = "k"
			if code, _, errs := command(t, env, "limits", "set", "openai.requests", "30/m",
				"--config", "../../../headway.yaml"); code != cli.ExitOK {
				t.Fatalf("%s: exit %d: %s", name, code, errs)
			}
			client, err := connect.Redis(contextOf(t, env), func(k string) string { return env[k] })
			if err != nil {
				t.Fatal(err)
			}
			document := client.HGet(t.Context(), stored, "openai/requests").Val()
			id, damaged := c.damage(document)
			if err = client.Del(t.Context(), stored).Err(); err == nil {
				err = client.HSet(t.Context(), stored, id, damaged).Err()
			}
			if err != nil {
				t.Fatal(err)
			}
			code, out, errs := command(t, env, "limits", "unset", "openai.requests", "--config", "../../../headway.yaml")
			if code != cli.ExitOK || !strings.Contains(out, "nothing was set") || !strings.Contains(errs, c.says) {
				t.Errorf("%s: unset: exit %d: %s%s", name, code, out, errs)
			}
			code, out, errs = command(t, env, "check", "--skip-provider", "--config", "../../../headway.yaml")
			if code != cli.ExitOK || !strings.Contains(out, "warning: ignored: ") || !strings.Contains(out, c.says) {
				t.Errorf("%s: check: exit %d: %s%s", name, code, out, errs)
			}
			_ = client.Close()
		}
	})
}

// Check names an override that the file does not allow any more.
func TestCheckNamesIgnoredOverrides(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env, _ := memory(t)
		env["OPENAI_API_KEY"] = "k"
		file := settingsFile(t, "limits: {openai: {meters: {requests: 50/s}}, gone: {meters: {requests: 1/s}}}\n")
		if code, _, errs := command(t, env, "limits", "set", "gone.requests", "30/m", "--config", file); code != cli.ExitOK {
			t.Fatalf("exit %d: %s", code, errs)
		}
		code, out, errs := command(t, env, "check", "--skip-provider", "--config", file)
		if code != cli.ExitOK || !strings.Contains(out, "overrides: 1 set") || strings.Contains(out, "ignored") {
			t.Errorf("exit %d: %s%s", code, out, errs)
		}
		file = settingsFile(t, "limits: {openai: {meters: {requests: 50/s}}}\n")
		code, out, errs = command(t, env, "check", "--skip-provider", "--config", file)
		if code != cli.ExitOK || !strings.Contains(out, "warning: ignored: ") || !strings.Contains(out, "gone") {
			t.Errorf("exit %d: %s%s", code, out, errs)
		}
	})
}

// settingsFile writes a headway.yaml.
func settingsFile(t *testing.T, text string) (name string) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "headway.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
