package fleet

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/fleet/deadletter"
	"github.com/headway-go/headway/internal/setup/cli"
)

// deadWorld is a queue and a store of dead tasks.
func deadWorld(t *testing.T) (map[string]string, *deadtasks.Store, *asynq.Inspector) {
	t.Helper()
	env, server := memory(t)
	store, done, err := openDead(contextOf(t, env), cli.Environment{Getenv: func(k string) string { return env[k] }}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(done)
	return env, store, server.Inspector()
}

func recorded(t *testing.T, store *deadtasks.Store, dead ...deadletter.Task) {
	t.Helper()
	if err := store.Recorder().Record(t.Context(), dead); err != nil {
		t.Fatal(err)
	}
}

func deadMail(id string, n int) deadletter.Task {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Second)
	return deadletter.Task{
		ID: id, Queue: "default", Type: "mail", Payload: fmt.Appendf(nil, `{"n":%d,"text":"<secret-looking>"}`,
			n), MaxRetry: 22, Timeout: time.Minute,
		Headers: map[string]string{
			"headway-version": "1",
			"headway-charges": `[{"limit":"api","tokens":{"requests":1}}]`,
		},
		At: at, Cause: deadletter.CauseRetries,
		Last: deadletter.Attempt{
			Number: 3, At: at, Elapsed: 1500 * time.Millisecond,
			Error: "connection refused\nmore", Worker: "host:42",
		},
	}
}

func TestDeadCommands(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env, store, inspector := deadWorld(t)
		if code, out, _ := command(t, env, "dead", "list"); code != cli.ExitOK || out != "no dead tasks\n" {
			t.Errorf("exit %d: %s", code, out)
		}
		of := deadMail("batch1-42-0", 2)
		of.Payload = []byte(`{"batch":{"id":"batch1","line":42}}`)
		binary := deadMail("binary", 3)
		binary.Payload, binary.Queue = []byte{0xff, 0}, "other"
		recorded(t, store, deadMail("report-1", 1), of, binary)

		code, out, errs := command(t, env, "dead", "list")
		want := `ID           QUEUE    TYPE  STATE                   AT                    ATTEMPTS  ERROR
report-1     default  mail  dead                    2026-05-01T12:00:01Z  1         connection refused...
batch1-42-0  default  mail  dead (of batch batch1)  2026-05-01T12:00:02Z  1         connection refused...
binary       other    mail  dead                    2026-05-01T12:00:03Z  1         connection refused...

3 tasks; ` + "`headway dead show ID` shows all of one, `headway dead requeue ID` sends it again, " +
			"`headway retry BATCH --failed` sends requests of a batch again\n"
		if diff := cmp.Diff(want, out); code != cli.ExitOK || errs != "" || diff != "" {
			t.Errorf("exit %d: %s%s", code, diff, errs)
		}
		for filter, want := range map[string]string{
			"--queue=other": "one, `headway dead requeue ID` sends it again\n",
			"--queue=default --since=2026-05-01T12:00:02Z": "one, `headway retry BATCH --failed` sends them again\n",
		} {
			args := append([]string{"dead", "list"}, strings.Fields(filter)...)
			if _, out, _ = command(t, env, args...); !strings.HasSuffix(out, want) {
				t.Errorf("%s: %s", filter, out)
			}
		}
		if _, out, _ = command(t, env, "dead", "list", "--json", "--queue", "default", "--since",
			"2026-05-01T12:00:02Z"); strings.Count(out, "\n") != 1 || !strings.Contains(out, `"id":"batch1-42-0"`) ||
			strings.Contains(out, "payload") {
			t.Errorf("as JSON: %s", out)
		}
		_, out, _ = command(t, env, "dead", "show", "report-1")
		for _, part := range []string{
			"Task report-1 (mail) in queue default is dead: its retries are used " +
				"up.\n", "3  2026-05-01T12:00:01Z  after 1.5s  connection refused...  (host:42)",
			"charges   api: requests 1", "retries   2", "timeout   1m0s", `{"n":1,"text":"<secret-looking>"}`,
		} {
			if !strings.Contains(out, part) {
				t.Errorf("%q is missing in\n%s", part, out)
			}
		}
		if code, _, errs = command(t, env, "dead", "show", "nobody"); code != cli.ExitFailed ||
			!strings.Contains(errs, "nobody") {
			t.Errorf("exit %d: %s", code, errs)
		}

		if code, _, errs = command(t, env, "dead", "requeue", "report-1", "--type", "other"); code != cli.ExitFailed ||
			!strings.Contains(errs, "leave them out to requeue it") {
			t.Errorf("one that the flags do not choose: exit %d: %s", code, errs)
		}
		code, out, errs = command(t, env, "dead", "requeue", "report-1", "nobody", "batch1-42-0")
		if code != cli.ExitFailed || !strings.Contains(errs, "1 task requeued") ||
			!strings.Contains(errs, "headway retry batch1 --failed") ||
			!strings.Contains(errs, "no record of task nobody") {
			t.Errorf("exit %d: %s%s", code, out, errs)
		}
		if code, out, errs = command(t, env, "dead", "requeue", "report-1"); code != cli.ExitOK ||
			out != "0 tasks requeued, 1 not dead\n" {
			t.Errorf("exit %d: %s%s", code, out, errs)
		}
		if info, err := inspector.GetTaskInfo("default", "report-1"); err != nil || info.State != asynq.TaskStatePending {
			t.Errorf("%+v, %v", info, err)
		}
		if code, out, _ = command(t, env, "dead", "requeue", "--all", "--json"); code != cli.ExitOK ||
			out != `{"requeued":1,"present":0,"of_batches":1,"others":0}`+"\n" {
			t.Errorf("exit %d: %s", code, out)
		}
		if code, out, _ = command(t, env, "dead", "delete", "batch1-42-0"); code != cli.ExitOK ||
			out != "1 task deleted\n" {
			t.Errorf("exit %d: %s", code, out)
		}
		if code, _, errs = command(t, env, "dead", "delete", "report-1"); code != cli.ExitFailed ||
			!strings.Contains(errs, "is requeued") {
			t.Errorf("exit %d: %s", code, errs)
		}
	})
}

// All dead tasks, all of a batch, or all that the flags choose are deleted together.
func TestDeadDeleteMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env, store, _ := deadWorld(t)
		request := deadMail("batch1-42-0", 3)
		request.Payload = []byte(`{"batch":{"id":"batch1","line":42}}`)
		recorded(t, store, deadMail("a", 1), deadMail("b", 2), request, deadMail("c", 4))
		for _, tc := range []struct{ args, out string }{
			{"--batch batch1", "1 task deleted\n"},
			{"--batch batch1", "0 tasks deleted\n"},
			{"--all --since 2026-05-01T12:00:02Z", "2 tasks deleted\n"},
			{"--all", "1 task deleted\n"},
		} {
			args := append([]string{"dead", "delete"}, strings.Fields(tc.args)...)
			if code, out, errs := command(t, env, args...); code != cli.ExitOK || out != tc.out {
				t.Errorf("%s: exit %d: %s%s", tc.args, code, out, errs)
			}
		}
		for _, args := range []string{"", "a --all", "a --type mail"} {
			if code, out, _ := command(t, env, append([]string{"dead", "delete"}, strings.Fields(args)...)...); code !=
				cli.ExitUsage {
				t.Errorf("%q: exit %d: %s", args, code, out)
			}
		}
	})
}

func TestDeadExport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const many = 10_200 // more than asynq keeps
		env, store, _ := deadWorld(t)
		for from := 0; from < many; from += 600 {
			var dead []deadletter.Task
			for n := from; n < from+600; n++ {
				dead = append(dead, deadMail(fmt.Sprintf("m-%d", n), n))
			}
			recorded(t, store, dead...)
		}
		name := filepath.Join(t.TempDir(), "dead.jsonl")
		code, out, errs := command(t, env, "dead", "export", "--out", name)
		if code != cli.ExitOK || out != "" || errs != "10200 tasks in "+name+"\n" {
			t.Fatalf("exit %d: %s%s", code, out, errs)
		}
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = file.Close() }()
		n := 0
		for lines := bufio.NewScanner(file); lines.Scan(); n++ {
			var row deadRow
			if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
				t.Fatal(err)
			}
			if row.ID != fmt.Sprintf("m-%d", n) || string(row.Payload) != string(deadMail("", n).Payload) ||
				*row.MaxRetry != 2 || row.Headers["headway-charges"] == "" || row.Attempts[0].Error == "" {
				t.Fatalf("line %d: %s", n, lines.Bytes())
			}
		}
		if left, _ := filepath.Glob(name + ".*"); n != many || len(left) > 0 {
			t.Errorf("%d lines, left behind: %v", n, left)
		}
		if _, out, _ = command(t, env, "dead", "list", "--limit", "3"); !strings.Contains(out, "\n10200 tasks;") ||
			strings.Count(out, "\n") != 6 {
			t.Errorf("%s", out)
		}
	})
}

func TestDeadExitCodes(t *testing.T) {
	t.Parallel()
	away := map[string]string{"MONGODB_URI": "mongodb://127.0.0.1:1/", "REDIS_URL": "redis://127.0.0.1:1"}
	for _, tc := range []struct {
		args string
		code int
		want string
	}{
		{"dead list", cli.ExitUnavailable, "MONGODB_URI"},
		{"dead requeue --all", cli.ExitUnavailable, "REDIS_URL"},
		{"dead requeue", cli.ExitUsage, "--all"},
		{"dead requeue x --all", cli.ExitUsage, "--all"},
		{"dead list --since yesterday", cli.ExitUsage, "--since"},
		{"dead list --limit -1", cli.ExitUsage, "--limit"},
		{"dead delete", cli.ExitUsage, "--help"},
		{"dead show", cli.ExitUsage, "--help"},
	} {
		if code, _, errs := command(t, away, strings.Fields(tc.args)...); code != tc.code ||
			!strings.Contains(errs, tc.want) {
			t.Errorf("%s: exit %d: %s", tc.args, code, errs)
		}
	}
}
