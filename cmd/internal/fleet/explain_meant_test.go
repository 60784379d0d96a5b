package fleet

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hibiken/asynq"
	"github.com/spf13/cobra"

	"github.com/headway-go/headway/cmd/internal/enqueue"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/connect"
)

// Explain takes a batch, a request of a batch, and the beginning of an ID.
func TestExplainTakesNames(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env, file := waitingWorld(t)
		in := filepath.Join(t.TempDir(), "in.jsonl")
		const line = `{"custom_id":"ID","method":"POST","url":"/v1/chat/completions",` +
			`"body":{"model":"m","messages":[{"role":"user","content":"hi"}]}}`
		lines := strings.Replace(line, "ID", "a:1", 1) + "\n" + strings.Replace(line, "ID", "b", 1) + "\n"
		if err := os.WriteFile(in, []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		root := func(env cli.Environment) *cobra.Command {
			c := &cobra.Command{Use: "headway"}
			c.AddCommand(enqueue.Commands(env)...)
			return c
		}
		args := []string{"batch", in, "--limit", "api", "--config", file}
		if code := cli.Run(contextOf(t, env), root, args, cli.Environment{
			Getenv: func(k string) string { return env[k] }, Out: &out, Err: &out,
		}); code != cli.ExitOK {
			t.Fatalf("exit %d: %s", code, &out)
		}
		id := regexp.MustCompile(`[0-9a-f]{16}`).FindString(out.String())
		for name, want := range map[string]string{
			id: id + "-1-0", id[:6]: id + "-1-0", id + ":b": id + "-2-0", id[:6] + ":a:1": id + "-1-0", id + "-2": id + "-2-0",
			"first-": "first-acme",
		} {
			code, out, errs := command(t, env, "explain", name, "--config", file, "--json")
			if code != cli.ExitOK || !strings.Contains(out, `"id":"`+want+`"`) {
				t.Errorf("%s: exit %d: %s%s", name, code, out, errs)
			}
		}
		client, err := connect.Redis(contextOf(t, env), func(name string) string { return env[name] })
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = client.Close() }()
		again := asynq.NewClientFromRedisClient(client)
		if _, err := again.Enqueue(asynq.NewTask("llm:call", nil), asynq.TaskID(id+"-1-1")); err != nil {
			t.Fatal(err)
		}
		if _, out, errs := command(t, env, "explain", id+"-1-0", "--config", file); !strings.Contains(out,
			"the request was sent again as task "+id+"-1-1\n") {
			t.Errorf("%s%s", out, errs)
		}
		for name, want := range map[string]string{
			id + ":c": "no request with the custom_id", "fi": "several tasks begin with", "none:b": "there is no none:b",
		} {
			if code, out, errs := command(t, env, "explain", name, "--config", file); code == cli.ExitOK ||
				!strings.Contains(errs, want) {
				t.Errorf("%s: exit %d: %s%s", name, code, out, errs)
			}
		}
		for _, args := range [][]string{{"cancel", id + ":b"}, {"results", id, "--errors", "-"}} {
			out.Reset()
			if code := cli.Run(contextOf(t, env), root, append(args, "--config", file), cli.Environment{
				Getenv: func(k string) string { return env[k] }, Out: &out, Err: &out,
			}); code != cli.ExitOK {
				t.Fatalf("%q: exit %d: %s", args, code, &out)
			}
		}
		code, _, errs := command(t, env, "explain", id+":b", "--config", file)
		if code == cli.ExitOK || !strings.Contains(errs, "has failed ") ||
			!strings.Contains(errs, "`headway results "+id+" --errors -` writes its result") {
			t.Errorf("exit %d: %s", code, errs)
		}
	})
}
