package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/cmd/internal/session"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/connect"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// job is a task that takes a minute's worth of the limit "api".
type job struct{ Key string }

func (job) TaskType() string { return "job" }

func (j job) Charges() []reservations.Charge {
	return []reservations.Charge{{Limit: "api", Key: j.Key, Tokens: reservations.Tokens{"requests": 60}}}
}

// waitingWorld is a queue and buckets in which three tasks wait for the limit "api", one of them for the key "acme".
func waitingWorld(t *testing.T) (env map[string]string, file string) {
	t.Helper()
	env, _ = memory(t)
	file = filepath.Join(t.TempDir(), "headway.yaml")
	if err := os.WriteFile(file, []byte("limits: {api: {meters: {requests: 60/m}}, idle: {meters: {tokens: 5/s}}}"),
		0o600); err != nil {
		t.Fatal(err)
	}
	s, err := session.Load(contextOf(t, env), cli.Environment{Getenv: func(k string) string { return env[k] }}, file,
		session.Needs{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	for _, task := range []struct{ id, key string }{
		{"first", ""},
		{"a", ""},
		{"b", ""},
		{"first-acme", "acme"},
		{"c", "acme"},
	} {
		if _, err := s.Scheduler.Enqueue(t.Context(), job{Key: task.key},
			tasks.Options{ID: task.id}); err != nil {
			t.Fatal(err)
		}
	}
	return env, file
}

func TestExplainCommand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env, file := waitingWorld(t)
		code, out, errs := command(t, env, "explain", "b", "--config", file)
		if code != cli.ExitOK || errs != "" {
			t.Errorf("exit %d: %s%s", code, out, errs)
		}
		for _, want := range []string{
			`^Task b waits for limit api: it is number 3 of 3 in its waitlist; ` +
				`no worker takes from queue default: start one\.\n\n`,
			`\n  state     scheduled in asynq; position 3 of 3 in the waitlist of api\n`,
			`\n  charges   api: requests 60\n`,
			`\n  ahead     requests 120\n`, `\n  reserved  its tokens are promised\n`,
			`\n  net       \S+Z, in \S+s: asynq delivers it then, should no dispatcher promote it\n`,
			`\napi  3 tasks wait\n`,
			`\n  METER     RATE  LEVEL     PROMISED  AHEAD  `,
		} {
			if !regexp.MustCompile(want).MatchString(out) {
				t.Errorf("%q is missing in:\n%s", want, out)
			}
		}
		testenv.Serve(t, openWorld(t, env, file).Queue, "default")
		_, out, _ = command(t, env, "explain", "b", "--config", file)
		for _, want := range []string{
			`in its waitlist, expected to start in (2m0|1m5\S+|1m4\S+)s\.\n\n`,
			`\napi  3 tasks wait, the last is expected to start in (2m0|1m5\S+|1m4\S+)s\n`,
		} {
			if !regexp.MustCompile(want).MatchString(out) {
				t.Errorf("with a worker %q is missing in:\n%s", want, out)
			}
		}
		env["MONGODB_URI"] = "mongodb://127.0.0.1:1/"
		if code, out, errs = command(t, env, "explain", "b", "--config", file); code != cli.ExitOK ||
			!strings.Contains(out, "waits for limit api") || !strings.Contains(out, "MONGODB_URI") {
			t.Errorf("without MongoDB: exit %d: %s%s", code, out, errs)
		}
	})
}

func TestExplainAsJSON(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env, file := waitingWorld(t)
		code, out, errs := command(t, env, "explain", "b", "--queue", "default", "--config", file, "--json")
		if strings.Contains(out, "expected to start") {
			t.Errorf("a start is expected without a worker:\n%s", out)
		}
		var shown []map[string]any
		if err := json.Unmarshal([]byte(out), &shown); err != nil || code != cli.ExitOK || len(shown) != 1 {
			t.Fatalf("exit %d, %v: %s%s", code, err, out, errs)
		}
		if d := cmp.Diff([]string{
			"before", "bucket", "charges", "failures", "id", "max_retry", "net", "now", "queue", "reason", "since", "state",
			"summary", "type", "waits", "workers",
		}, keysOf(shown[0])); d != "" {
			t.Errorf("keys (-want +got):\n%s", d)
		}
		waits, _ := shown[0]["waits"].(map[string]any)
		if d := cmp.Diff([]string{"bucket", "of", "position", "reserved", "tokens", "tokens_ahead", "tokens_ahead_exact"},
			keysOf(waits)); d != "" {
			t.Errorf("keys of waits (-want +got):\n%s", d)
		}
		bucket, _ := shown[0]["bucket"].(map[string]any)
		if shown[0]["reason"] != "limit" || waits["position"] != 3. || waits["of"] != 3. || bucket["waiting"] != 3. {
			t.Errorf("%s", out)
		}
	})
}

func TestExplainOfAPausedQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env, file := waitingWorld(t)
		client, err := connect.Redis(contextOf(t, env), func(name string) string { return env[name] })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		if err = asynq.NewInspectorFromRedisClient(client).PauseQueue("default"); err != nil {
			t.Fatal(err)
		}
		testenv.Serve(t, client, "default")
		code, out, errs := command(t, env, "explain", "b", "--config", file)
		if code != cli.ExitOK {
			t.Errorf("exit %d: %s%s", code, out, errs)
		}
		for _, want := range []string{
			"; queue default is paused, so it starts only after the pause, and not before \\S+Z: resume it with " +
				"`headway unpause default`\\.\n",
			`\n  until     \S+Z, in \S+s, at the earliest\n`, "\n  paused    nothing of queue default starts until it is " +
				"resumed: `headway unpause default`\n",
			`\n  net       \S+Z, in \S+s: asynq puts it into its queue then, should no dispatcher promote it\n`,
		} {
			if !regexp.MustCompile(want).MatchString(out) {
				t.Errorf("%q is missing in:\n%s", want, out)
			}
		}
		var shown []map[string]any
		if _, out, _ = command(t, env, "explain", "b", "--config", file, "--json"); json.Unmarshal([]byte(out),
			&shown) != nil || len(shown) != 1 {
			t.Fatalf("as JSON: %s", out)
		}
		if shown[0]["paused"] != true || shown[0]["resume"] != "headway unpause default" ||
			shown[0]["reason"] != "limit" {
			t.Errorf("as JSON: %s", out)
		}
	})
}

// What a provider wrote does nothing to the terminal, neither here nor among the dead. A failure that ended its task
// counts, which asynq leaves out.
func TestShownErrorsAreHarmless(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env, store, _ := deadWorld(t)
		client, err := connect.Redis(contextOf(t, env), func(name string) string { return env[name] })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		ended := make(chan struct{})
		server := asynq.NewServerFromRedisClient(client, asynq.Config{
			LogLevel:          asynq.FatalLevel,
			TaskCheckInterval: 20 * time.Millisecond,
		})
		if err := server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
			defer close(ended)
			return fmt.Errorf("\x1b[31mhopeless: %w", asynq.SkipRetry)
		})); err != nil {
			t.Fatal(err)
		}
		if _, err := asynq.NewClientFromRedisClient(client).Enqueue(asynq.NewTask("mail", nil),
			asynq.TaskID("evil")); err != nil {
			t.Fatal(err)
		}
		<-ended
		server.Shutdown()
		record := deadMail("evil", 1)
		record.Last.Error, record.Payload = "\x1b[31mhopeless", []byte("\x1b]0;title\a")
		recorded(t, store, record)
		for _, args := range [][]string{{"explain", "evil"}, {"dead", "show", "evil"}, {"dead", "list"}} {
			code, out, errs := command(t, env, args...)
			if code != cli.ExitOK || strings.ContainsAny(out, "\x1b\a") || !strings.Contains(out, `\x1b[31mhopeless`) {
				t.Errorf("%v: exit %d: %q%s", args, code, out, errs)
			}
			if args[0] == "explain" && !strings.Contains(out, "  failures  1\n") {
				t.Errorf("failures: %s", out)
			}
		}
		if _, out, _ := command(t, env, "explain", "evil", "--json"); !strings.Contains(out, `"failures":1,`) {
			t.Errorf("as JSON: %s", out)
		}
	})
}

func TestExplainWhatIsNotThere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env, file := waitingWorld(t)
		for name, tc := range map[string]struct {
			args []string
			code int
			want string
		}{
			"a batch": {[]string{"3f2a"}, cli.ExitFailed, "batches are shown by `headway status`"},
			"a queue": {
				[]string{"b", "--queue", "nosuch"},
				cli.ExitFailed,
				`there is no queue "nosuch"; there is "default"`,
			},
			"an empty": {[]string{" "}, cli.ExitUsage, "the ID of the task is empty"},
		} {
			if code, out, errs := command(t, env, append([]string{"explain", "--config", file},
				tc.args...)...); code != tc.code || out != "" || !strings.Contains(errs, tc.want) {
				t.Errorf("%s: exit %d: %s%s", name, code, out, errs)
			}
		}
	})
}

func keysOf(m map[string]any) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func TestExplainAndShowExitCodes(t *testing.T) {
	t.Parallel()
	queue := "redis://" + miniredis.RunT(t).Addr()
	for name, tc := range map[string]struct {
		env  map[string]string
		args []string
		code int
		want string
	}{
		"no such task": {
			map[string]string{"REDIS_URL": queue},
			[]string{"explain", "none"},
			cli.ExitFailed,
			"there is no none",
		},
		"a task that is no more": {
			map[string]string{"REDIS_URL": queue},
			[]string{"explain", "none"},
			cli.ExitFailed,
			"`headway dead show none`",
		},
		"an ID that a shell reads": {
			map[string]string{"REDIS_URL": queue},
			[]string{"explain", "a $(b)"},
			cli.ExitFailed,
			"`headway dead show 'a $(b)'`",
		},
		"no such queue": {
			map[string]string{"REDIS_URL": queue},
			[]string{"explain", "a", "--queue", "none"},
			cli.ExitFailed, `"none"`,
		},
		"no task named": {nil, []string{"explain"}, cli.ExitUsage, "explain --help"},
		"no redis": {
			map[string]string{"REDIS_URL": "redis://127.0.0.1:1"},
			[]string{"explain", "a"},
			cli.ExitUnavailable, "REDIS_URL",
		},
		"no such file": {map[string]string{"REDIS_URL": queue}, []string{
			"explain", "a", "--config",
			"none.yaml",
		}, cli.ExitUsage, "none.yaml"},
		"show without redis": {
			map[string]string{"REDIS_URL": "redis://127.0.0.1:1"},
			[]string{"limits", "show", "--config", "../../../headway.yaml"},
			cli.ExitUnavailable, "REDIS_URL",
		},
		"show without mongo": {
			map[string]string{"REDIS_URL": queue, "MONGODB_URI": "mongodb://127.0.0.1:1/"},
			[]string{"limits", "show", "--config", "../../../headway.yaml"},
			cli.ExitUnavailable, "MONGODB_URI",
		},
		"show without settings": {nil, []string{"limits", "show"}, cli.ExitUsage, "headway.yaml"},
		"show two":              {nil, []string{"limits", "show", "a", "b"}, cli.ExitUsage, "show --help"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errs := command(t, tc.env, tc.args...)
			if code != tc.code || !strings.Contains(errs, tc.want) || out != "" {
				t.Errorf("exit %d: %s%s", code, out, errs)
			}
		})
	}
	env, file := waitingWorld(t)
	if code, _, errs := command(t, env, "limits", "show", "nope", "--config", file); code != cli.ExitUsage ||
		!strings.Contains(errs, `"nope" is not configured`) {
		t.Errorf("an unknown limit: exit %d: %s", code, errs)
	}
}
