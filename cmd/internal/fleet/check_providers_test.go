package fleet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/headway-go/headway/internal/products/embedded"
	"github.com/headway-go/headway/internal/products/provider"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/config"
)

// Check asks each provider with its own key, and names the field that is at fault.
func TestCheckAsksEachProvider(t *testing.T) {
	t.Parallel()
	_, west := startKeyed(t, provider.Quota{}, "Bearer sk-west-hidden")
	_, east := startKeyed(t, provider.Quota{}, "")
	file := filepath.Join(t.TempDir(), "headway.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, `
limits: {west: {in_flight: 1}, east: {in_flight: 1}, dead: {in_flight: 1}, south: {in_flight: 1}}
providers:
  west: {base_url: %q, key: WEST_KEY, models: [test, other]}
  east: {base_url: %q}
  dead: {base_url: "http://127.0.0.1:1/v1"}
  south: {base_url: "http://127.0.0.1:1/v1", key: SOUTH_KEY}
`, west, east), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"REDIS_URL": "redis://" + miniredis.RunT(t).Addr(), "WEST_KEY": "sk-west-hidden"}
	_, out, errs := command(t, env, "check", "--config", file)
	for _, want := range []string{
		"ok     provider west: " + west + " answers, models 1\n       warning: its list lacks model \"other\"\n",
		"ok     provider east: " + east + " answers, models 1\n",
		"FAULT  provider dead: providers.dead.base_url: http://127.0.0.1:1/v1 is not reachable",
		"ok     provider south: http://127.0.0.1:1/v1, not asked\n",
		"ok     WEST_KEY: is set\n", "ok     SOUTH_KEY: is not set: this worker would send all calls of the provider back",
	} {
		if !strings.Contains(out+errs, want) {
			t.Errorf("%q is missing in:\n%s%s", want, out, errs)
		}
	}
	if strings.Contains(out+errs, "hidden") {
		t.Errorf("shows a key:\n%s%s", out, errs)
	}
}

// Anthropic refuses a bearer token where it lists its models.
func TestModelsOfAnthropic(t *testing.T) {
	t.Parallel()
	r, err := modelsRequest(t.Context(), "https://api.anthropic.com/v1/", "k")
	if err != nil || r.URL.String() != "https://api.anthropic.com/v1/models" || r.Header.Get("X-Api-Key") != "k" ||
		r.Header.Get("Anthropic-Version") == "" || r.Header.Get("Authorization") != "" {
		t.Errorf("%v, %v", r, err)
	}
}

// The examples are files that check accepts, and whose models need no --limit.
func TestExamplesOfProviders(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../../examples/providers/*.yaml")
	if err != nil || len(files) != 5 {
		t.Fatalf("files %v, %v", files, err)
	}
	redis, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redis.Close)
	env := map[string]string{"REDIS_URL": redis.URL()}
	for _, file := range append(files, blockOf(t, "../../../docs/providers.md")) {
		code, out, errs := command(t, env, "check", "--config", file, "--skip-provider")
		if code != cli.ExitOK || !strings.Contains(out, ", not asked") || strings.Contains(out, "warning") {
			t.Errorf("%s: exit %d: %s%s", file, code, out, errs)
		}
		c, err := config.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		last := c.Providers[len(c.Providers)-1]
		if limit, known := c.Providers.LimitOf(last.Models[0]); !known || limit != last.Name {
			t.Errorf("%s: limit %q", file, limit)
		}
	}
}

// blockOf writes the first block of YAML in a page to a file.
func blockOf(t *testing.T, page string) (file string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "```yaml\n")
	block, _, _ = strings.Cut(block, "```")
	file = filepath.Join(t.TempDir(), "headway.yaml")
	if err := os.WriteFile(file, []byte(block), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
