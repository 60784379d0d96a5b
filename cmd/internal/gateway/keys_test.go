package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/calls/pause"
	"github.com/headway-go/headway/internal/documents/keys"
	"github.com/headway-go/headway/internal/setup/cli"
)

// until waits for something that another goroutine does.
func until(t *testing.T, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for !is() {
		if pause.For(ctx, 50*time.Millisecond) != nil {
			t.Fatal("in vain")
		}
	}
}

// The life of a key: made, listed, used, replaced, revoked. Its secret is shown once.
func TestKeys(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	run := func(args ...string) string {
		t.Helper()
		code, out, errs := f.run(t, append(args, "--config", f.file)...)
		if code != cli.ExitOK {
			t.Fatalf("%v: exit %d: %s", args, code, errs)
		}
		return strings.TrimSpace(out)
	}
	baseURL, _ := f.serve(t, "--limit", "openai")
	status := func(key string) int {
		code, _ := ask(t, baseURL, key)
		return code
	}
	if got := status("any"); got != http.StatusOK {
		t.Fatalf("without keys: %d", got)
	}
	secret := run("keys", "create", "--tenant", "acme", "--limit", "tenants:acme", "--models", "m,gpt-*",
		"--expires", "90d")
	if !strings.HasPrefix(secret, "hw_") || len(secret) < 40 {
		t.Fatalf("secret %q", secret)
	}
	until(t, func() bool { return status("any") == http.StatusUnauthorized && status(secret) == http.StatusOK })
	var listed []keys.Key
	text := run("keys", "list", "--json")
	if err := json.Unmarshal([]byte(text), &listed); err != nil || len(listed) != 1 || listed[0].Tenant != "acme" ||
		strings.Contains(text, secret) {
		t.Fatalf("%v: %s", err, text)
	}
	if text = run("keys", "list"); !strings.Contains(text, "tenants:acme") || !strings.Contains(text, "m,gpt-*") {
		t.Error(text)
	}
	next := run("keys", "rotate", listed[0].ID, "--overlap", "0s")
	until(t, func() bool { return status(secret) == http.StatusUnauthorized && status(next) == http.StatusOK })
	text = run("keys", "list", "--json")
	if err := json.Unmarshal([]byte(text), &listed); err != nil || len(listed) != 2 {
		t.Fatalf("%v: %s", err, text)
	}
	for _, key := range listed {
		run("keys", "revoke", key.ID)
	}
	until(t, func() bool { return status("any") == http.StatusOK })
	if code, _, errs := f.run(t, "keys", "revoke", "nope", "--config", f.file); code != cli.ExitUsage ||
		!strings.Contains(errs, "no such key") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

func TestKeysThatCanNotBe(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	for want, args := range map[string][]string{
		"--tenant is required":          {},
		"\n  nope: {meters: {requests:": {"--tenant", "a", "--limit", "nope:a"},
		"\n    priorities: {high: 9, ":  {"--tenant", "a", "--priority", "high"},
		"is no pattern":                 {"--tenant", "a", "--models", "a["},
		"--budget: ":                    {"--tenant", "a", "--budget", "much"},
		"\nprices:\n  gpt-4o-mini: {in": {"--tenant", "a", "--budget", "5/d"},
		"flow":                          {"--tenant", "a\nb"},
		"two charges are for tenants:a": {"--tenant", "a", "--limit", "tenants:a", "--limit", "tenants:a"},
	} {
		args = append([]string{"keys", "create", "--config", f.file}, args...)
		if code, _, errs := f.run(t, args...); code != cli.ExitUsage || !strings.Contains(errs, want) {
			t.Errorf("%v: exit %d: %s", args, code, errs)
		}
	}
}

// The keys that docs/gateway.md creates can be created with the settings that stand before them. A gateway with
// these settings and no flags serves them.
func TestKeysOfThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/gateway.md")
	if err != nil {
		t.Fatal(err)
	}
	_, settings, _ := strings.Cut(string(page), "```yaml\nlimits:\n")
	settings, commands, _ := strings.Cut(settings, "```")
	settings = "limits:\n" + strings.Replace(settings, "# ... the meters that it has", "meters: {requests: 500/m}", 1)
	f := newFleet(t)
	settings = strings.Replace(settings, "https://api.openai.com/v1", f.env["OPENAI_BASE_URL"], 1)
	if err = os.WriteFile(f.file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	baseURL, _ := f.serve(t)
	created := 0
	for line := range strings.Lines(commands) {
		args, ok := strings.CutPrefix(line, "headway keys create ")
		if !ok || created == 2 { // the third is of docker-compose.yml
			continue
		}
		created++
		fields := strings.Fields(strings.ReplaceAll(args, `"`, ""))
		code, secret, errs := f.run(t, append([]string{"keys", "create", "--config", f.file}, fields...)...)
		if code != cli.ExitOK {
			t.Errorf("%s: exit %d: %s", line, code, errs)
			continue
		}
		if status, answer := askFor(t, "gpt-4o-mini", baseURL, strings.TrimSpace(secret)); status != http.StatusOK {
			t.Errorf("%s: %d: %s", line, status, answer)
		}
	}
	if created != 2 {
		t.Errorf("the page creates %d keys behind its settings", created)
	}
}
