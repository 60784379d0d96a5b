package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"github.com/headway-go/headway/internal/calls/pause"
	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/reservations"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what another goroutine does.
const patience = 5 * time.Minute

// until waits until done.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !done() {
		if pause.For(ctx, 10*time.Millisecond) != nil {
			t.Fatalf("in vain: %s", what)
		}
	}
}

func command(t *testing.T, env map[string]string, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = cli.Run(contextOf(t, env), rootCommand, args, cli.Environment{
		Getenv: func(k string) string { return env[k] },
		Out:    &o, Err: &e,
	})
	return code, o.String(), e.String()
}

func TestCheckReportsEveryFault(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(file, []byte("limits: {a: {meters: {r: -5/m, q: {rate: 1/m, max_reserved: "+
		"-2}}}}\nconcurrency: -1"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{
		"REDIS_URL":   "redis://u:secret@127.0.0.1:1",
		"MONGODB_URI": "mongodb://u:secret@127.0.0.1:1/", "OPENAI_BASE_URL": "https://u:secret@host/v1",
	}
	code, out, errs := command(t, env, "check", "--config", file)
	if code != cli.ExitUsage {
		t.Errorf("exit %d", code)
	}
	for _, want := range []string{
		"limits.a.meters.r.rate", "limits.a.meters.q.max_reserved", "concurrency",
		"REDIS_URL", "MONGODB_URI", "OPENAI_API_KEY", "FAULT  provider: OPENAI_BASE_URL: must hold no user",
	} {
		if strings.Count(out+errs, want) == 0 {
			t.Errorf("%q is missing in:\n%s%s", want, out, errs)
		}
	}
	if strings.Contains(out+errs, "secret") {
		t.Errorf("shows a password:\n%s%s", out, errs)
	}
}

func TestCheckAsJSON(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	env := map[string]string{
		"REDIS_URL": "redis://" + server.Addr(), "MONGODB_URI": "mongodb://127.0.0.1:1/",
		"OPENAI_API_KEY": "sk-hidden", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1",
	}
	code, out, errs := command(t, env, "check", "--config", "../../../headway.yaml", "--json")
	var findings []checked
	if err := json.Unmarshal([]byte(out), &findings); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	ok := map[string]bool{}
	for _, f := range findings {
		ok[f.What] = f.OK
	}
	if code != cli.ExitUnavailable || !ok["../../../headway.yaml"] || !ok["Redis"] || ok["MongoDB"] ||
		!ok["OPENAI_API_KEY"] || ok["provider"] {
		t.Errorf("exit %d, findings %v", code, findings)
	}
	if strings.Contains(out+errs, "sk-hidden") {
		t.Error("shows the key")
	}
}

// The README says that check prints how each setting was understood.
func TestCheckTellsEachSetting(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "headway.yaml")
	const text = `
limits:
  a:
    meters: {r: {rate: 500/m, headroom: 50, max_reserved: 9, settle: adjust}}
    settle: keep
    max_wait: 1h
    max_block: 2h
    ordinary_share: 0.2
  b: {meters: {d: {rate: 10000/d, window: "08:00"}, e: {rate: 1000/d, window: spread, capacity: 2000}}, shards: 4}
http: {allow_hosts: [api.example.com], secrets: {EXAMPLE_KEY: [api.example.com]}}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{
		"REDIS_URL":   "redis://" + miniredis.RunT(t).Addr(),
		"MONGODB_URI": "mongodb://127.0.0.1:1/",
	}
	_, out, _ := command(t, env, "check", "--config", file)
	for _, want := range []string{
		"limit a: r 500/m, at most 500 at once, max_reserved 9, headroom 50, settle adjust\n       settle keep, " +
			"ordinary_share 0.2, max_wait 1h0m0s, max_block 2h0m0s\n",
		"limit b: d 10000/d, at most 10000 at once, in windows that start at 08:00 UTC\n       e 1000/d, at most " +
			"2000 " +
			"at once, in windows that start at a time of each bucket's own\n       shards 4\n",
		"EXAMPLE_KEY: is not set, and http.secrets lists it",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
}

// Check compares the file with the limits of the workers that run.
func TestCheckComparesWithTheWorkers(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "headway.yaml")
	if err := os.WriteFile(file, []byte("limits: {a: {meters: {r: 500/m}}, b: {meters: {r: 5/s}}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := miniredis.RunT(t)
	queue := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = queue.Close() }()
	limit := reservations.Limit{Name: "a", Meters: []reservations.Meter{reservations.PerMinute("r", 300)}}
	other := register.Member{Name: "host:1", Limits: register.ByName([]reservations.Limit{limit})}
	if err := register.New(queue).Renew(t.Context(), "other", other); err != nil {
		t.Fatal(err)
	}
	code, out, errs := command(t, map[string]string{"REDIS_URL": "redis://" + server.Addr()}, "check", "--config", file)
	const want = "ok     workers: 1 live\n       warning: host:1 has other settings for limit a, meter r: " +
		"300/m, at most 300 at once; this file has: 500/m, at most 500 at once\n"
	if !strings.Contains(out, want) || strings.Contains(out, "limit b,") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

func TestRunRefusesToStart(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	queue := "redis://" + server.Addr()
	httpOnly := filepath.Join(t.TempDir(), "headway.yaml")
	if err := os.WriteFile(httpOnly,
		[]byte("limits: {api: {meters: {requests: 5/s}}}\nhttp: {allow_hosts: "+
			"[api.example.com]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		env  map[string]string
		args []string
		code int
		want string
	}{
		"no key": {nil, nil, cli.ExitUsage, "OPENAI_API_KEY"},
		"bad base": {
			map[string]string{"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "garbage"},
			nil, cli.ExitUsage,
			`OPENAI_BASE_URL: must look like https://host/v1`,
		},
		"http only": {
			map[string]string{"REDIS_URL": "redis://127.0.0.1:1"},
			[]string{"--config", httpOnly},
			cli.ExitUnavailable, "REDIS_URL",
		},
		"no file": {
			map[string]string{"OPENAI_API_KEY": "k"},
			[]string{"--config", "none.yaml"},
			cli.ExitUsage,
			"none.yaml",
		},
		"negative": {nil, []string{"--concurrency", "-5"}, cli.ExitUsage, "--concurrency: -5 must not be negative"},
		"no number": {
			nil,
			[]string{"--concurrency", "x"},
			cli.ExitUsage,
			`--concurrency: "x" must be a whole number, e.g. 20; see "headway worker --help"`,
		},
		"log level":  {nil, []string{"--log-level", "loud"}, cli.ExitUsage, "--log-level"},
		"log format": {nil, []string{"--log-format", "xml"}, cli.ExitUsage, "--log-format"},
		"no redis": {
			map[string]string{"OPENAI_API_KEY": "k", "REDIS_URL": "redis://127.0.0.1:1"},
			nil,
			cli.ExitUnavailable, "REDIS_URL",
		},
		"no mongo": {map[string]string{
			"OPENAI_API_KEY": "k", "REDIS_URL": queue,
			"MONGODB_URI": "mongodb://127.0.0.1:1/",
		}, nil, cli.ExitUnavailable, "MONGODB_URI"},
		"bad mongo": {
			map[string]string{"OPENAI_API_KEY": "k", "REDIS_URL": queue, "MONGODB_URI": "mongo:secret@x"},
			nil, cli.ExitUsage, "mongodb://user:password@host",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"worker"}, tc.args...)
			if len(tc.args) == 0 || tc.args[0] != "--config" {
				args = append(args, "--config", "../../../headway.yaml")
			}
			code, _, errs := command(t, tc.env, args...)
			if code != tc.code || !strings.Contains(errs, tc.want) || strings.Contains(errs, "secret") {
				t.Errorf("exit %d: %s", code, errs)
			}
		})
	}
}

func TestHelpTeaches(t *testing.T) {
	t.Parallel()
	for _, sub := range []string{
		"worker", "demo", "check", "reload", "explain", "limits", "limits show", "dead", "dead list",
		"dead show", "dead export", "dead requeue", "dead delete",
	} {
		code, out, _ := command(t, nil, append(strings.Fields(sub), "--help")...)
		if code != cli.ExitOK || !strings.Contains(out, "Examples:") {
			t.Errorf("%s: exit %d: %s", sub, code, out)
		}
	}
	if code, out, _ := command(t, nil, "--version"); code != cli.ExitOK || !strings.HasPrefix(out, "headway version ") {
		t.Errorf("--version: exit %d: %s", code, out)
	}
	if code, _, errs := command(t, nil, "nonsense"); code == cli.ExitOK {
		t.Errorf("an unknown command exits with %d: %s", code, errs)
	}
}

// rootCommand is a `headway` with the commands of this package alone.
func rootCommand(env cli.Environment) *cobra.Command {
	root := &cobra.Command{Use: "headway"}
	root.AddCommand(append(Running(env), Watching(env)...)...)
	return root
}
