package fleet

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/headway-go/headway/cmd/internal/session"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// Whatever a command is given and finds in the services, a terminal obeys none of what it prints. Each command has to
// be listed here.
func TestNoCommandPrintsWhatATerminalObeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env, store, _ := deadWorld(t)
		file := filepath.Join(t.TempDir(), "headway.yaml")
		if err := os.WriteFile(file, []byte("limits: {api: {meters: {requests: 60/m}}}"), 0o600); err != nil {
			t.Fatal(err)
		}
		bad := filepath.Join(t.TempDir(), "bad.yaml")
		if err := os.WriteFile(bad, []byte(`limits: {"\e[2J`+"\u202e"+`": {meters: {"\e[2J": 5/m}}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		dead := deadMail("dead", 1)
		dead.Type, dead.Last.Error, dead.Last.Worker = testenv.Forges, testenv.Forges, testenv.Forges
		dead.Payload, dead.Headers = []byte(testenv.Escapes), map[string]string{
			"headway-version": "1", "headway-charges": `[{"limit":"api","key":"\u001b[2J\u202e","tokens":{"requests":1}}]`,
			testenv.Escapes: testenv.Escapes,
		}
		id := deadMail(testenv.Forges, 2)
		id.Queue = testenv.Forges
		recorded(t, store, dead, id)
		waitWith(t, env, file, testenv.Forges)

		const esc = testenv.Escapes
		calls := map[string][][]string{
			"worker": {
				{"--config", bad},
				{"--config", esc},
				{"--log-level", esc},
				{"--log-format", esc},
				{"--concurrency", esc},
			},
			"dashboard":      {{"--config", bad}, {"--config", esc}, {"--listen", esc}, {"--listen", "127.0.0.1:" + esc}, {esc}},
			"dev":            {{"--config", bad}, {"--config", esc}, {"--listen", esc}, {"--log-level", esc}, {esc}},
			"init":           {{"--config", bad}, {"--config", "/nowhere/" + esc}, {esc}},
			"version":        {{}, {esc}},
			"demo":           {{esc}, {"--tasks", esc}},
			"check":          {{"--config", bad}, {"--config", bad, "--json"}, {"--config", esc}},
			"pause":          {{esc}},
			"unpause":        {{esc}},
			"delete":         {{esc}, {esc, "--queue", esc}, {"--config", bad, "x"}},
			"reload":         {{}, {"--json"}, {esc}, {"--timeout", esc}},
			"explain":        {{"waits"}, {"waits", "--json"}, {esc}, {esc, "--queue", esc}, {"--config", bad, "x"}},
			"limits list":    {{}, {"--json"}, {"--config", bad}},
			"limits show":    {{}, {"api"}, {"--json"}, {esc}, {"api", "--key", esc}},
			"limits set":     {{"api.requests", "30/m", "--key", esc}, {"api.requests", esc}, {esc, "1/s"}},
			"limits unset":   {{"api.requests", "--key", esc}, {esc}},
			"limits reset":   {{"api", "--key", esc}, {esc}},
			"limits unblock": {{"api", "--key", esc}, {esc}},
			"dead list":      {{}, {"--json"}, {"--since", esc}, {"--type", esc}},
			"dead show":      {{"dead"}, {"dead", "--json"}, {esc}},
			"dead export":    {{"--out", "/nowhere/" + esc}, {"--out", filepath.Join(t.TempDir(), "x"+esc)}},
			"dead requeue":   {{"--type", esc, "--dry-run"}, {esc}, {"--all"}},
			"dead delete":    {{"--type", esc}, {esc}, {"--all", "--type", esc}},
		}
		for _, path := range testenv.Commands(rootCommand(cli.Environment{})) {
			if len(calls[path]) == 0 {
				t.Errorf("command %q is not tried", path)
			}
			for _, args := range calls[path] {
				args = append(strings.Fields(path), args...)
				if strings.HasPrefix(path, "limits") || path == "explain" {
					args = append(args, "--config", file)
				}
				if _, out, errs := command(t, env, args...); testenv.Obeyed(out+errs) != "" || out+errs == "" {
					t.Errorf("%q: %s", args, testenv.Obeyed(out+errs))
				}
			}
		}
	})
}

// waitWith lets a task wait for a bucket with this key, which tasks could once have.
func waitWith(t *testing.T, env map[string]string, file, key string) {
	t.Helper()
	s, err := session.Load(contextOf(t, env), cli.Environment{Getenv: func(k string) string { return env[k] }}, file,
		session.Needs{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	info, err := s.Scheduler.Enqueue(t.Context(), job{}, tasks.Options{ID: "waits"})
	if err != nil {
		t.Fatal(err)
	}
	charge := reservations.Charge{Limit: "api", Key: key, Tokens: reservations.Tokens{"requests": 1}}
	task := waitlist.Task{Queue: info.Queue, ID: info.ID}
	stop := dispatcher.Stop{Charge: charge}
	waits := inside.Of(s.Scheduler).Wait(t.Context(), task, dispatcher.Turn{}, stop)
	if !errors.Is(waits, dispatcher.ErrDeferred) {
		t.Fatal(waits)
	}
}
