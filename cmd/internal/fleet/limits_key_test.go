package fleet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/setup/cli"
)

// A key that no bucket can have is refused before a service is asked: here none answers.
func TestKeysOfLimits(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "headway.yaml")
	if err := os.WriteFile(file, []byte("limits: {api: {meters: {requests: 60/m}}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{
		"REDIS_URL": "redis://127.0.0.1:1/0", "MONGODB_URI": "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=100",
	}
	long := strings.Repeat("x", 17<<10)
	for _, args := range [][]string{
		{"reset", "api:" + long},
		{"reset", "api:a\n"},
		{"unblock", "api:" + long},
		{"unblock", "api:\xff"},
		{"unset", "api.requests", "--key", long},
		{"set", "api.requests", "1/s", "--key", "a\n"},
	} {
		code, _, errs := command(t, env, append([]string{"limits"}, append(args, "--config", file)...)...)
		if code != cli.ExitUsage || !strings.Contains(errs, "key") || len(errs) > 500 {
			t.Errorf("%.60q: exit %d, %.300s", args, code, errs)
		}
	}
}
