package scripts_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// program is a shell script that replaces a command.
type program struct{ name, text string }

// runWith runs a script of the repository with these programs instead of the real ones. It returns the exit code and
// the output of the script.
func runWith(t *testing.T, script string, args, env []string, programs ...program) (code int, out string) {
	t.Helper()
	folder := t.TempDir()
	for _, p := range programs {
		if err := os.WriteFile(filepath.Join(folder, p.name), []byte("#!/usr/bin/env bash\n"+p.text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	// Otherwise Go's telemetry writes to the folder after the script has ended.
	telemetry := filepath.Join(folder, ".config", "go", "telemetry")
	if err := os.MkdirAll(telemetry, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(telemetry, "mode"), []byte("off"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, all := context.WithoutCancel(t.Context()), append([]string{"../" + script}, args...)
	c := exec.CommandContext(ctx, "bash", all...) //gate:ok a script of our own
	c.Env = append([]string{
		"PATH=" + folder + ":" + os.Getenv("PATH"), "HOME=" + folder, "TMPDIR=" + folder,
	}, env...)
	text, err := c.CombinedOutput()
	if err != nil && c.ProcessState == nil {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), string(text)
}

func TestCI(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		lint, tests string // shell commands of the steps
		code        int
		says        string
	}{
		"all is well":      {"exit 0", "exit 0", 0, "ci: lint exit 0, tests exit 0"},
		"the linter finds": {"exit 2", "exit 0", 2, "ci: lint exit 2, tests exit 0"},
		"no linter":        {"exit 127", "exit 0", 127, "ci: lint exit 127"},
		"a test fails":     {"exit 0", "exit 3", 3, "tests exit 3"},
		"both fail":        {"exit 1", "exit 2", 1, "ci: lint exit 1, tests exit 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps := "case $1 in lint) " + tc.lint + " ;; test) echo tested; " + tc.tests + " ;; esac; exit 99"
			code, out := runWith(t, ".ci/run", nil, nil, program{"make", steps})
			if code != tc.code || !strings.Contains(out, tc.says) || !strings.Contains(out, "tested\n") {
				t.Errorf("exit code %d, wanted %d and %q: %s", code, tc.code, tc.says, out)
			}
		})
	}
}

func TestVuln(t *testing.T) {
	t.Parallel()
	const away = `echo 'govulncheck: fetching vulnerabilities: Get "https://db.example": dial tcp: no such host' >&2
exit 1`
	for name, tc := range map[string]struct {
		check string // shell commands of govulncheck
		code  int
		says  string
	}{
		"none":            {"echo No vulnerabilities found.", 0, "No vulnerabilities found."},
		"one":             {"echo Vulnerability 1; exit 1", 1, "Vulnerability 1"},
		"no database":     {away, 77, "NOT CHECKED"},
		"it does not run": {"exit 1", 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out := runWith(t, "scripts/vuln", nil, nil, program{"go", tc.check})
			if code != tc.code || !strings.Contains(out, tc.says) || tc.code == 1 && strings.Contains(out, "NOT CHECKED") {
				t.Errorf("exit code %d, wanted %d and %q: %s", code, tc.code, tc.says, out)
			}
		})
	}
}
