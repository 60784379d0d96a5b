package enqueue

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hibiken/asynq"
	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/connect"
	"github.com/headway-go/headway/internal/test/memredis"
)

// TestMain runs this binary as the command itself if a test needs a process.
func TestMain(m *testing.M) {
	if args := os.Getenv(processArgs); args != "" {
		os.Args = append(os.Args[:1], strings.Split(args, "\n")...)
		if most := os.Getenv(processBytes); most != "" {
			os.Exit(runUntil(most))
		}
		os.Exit(cli.Main(rootCommand))
	}
	goleak.VerifyTestMain(m)
}

// call is the result of a command on a Redis in memory.
type call struct {
	redis    *memredis.Redis
	code     int
	out, err string
}

func enqueueCommand(t *testing.T, stdin string, args ...string) call {
	t.Helper()
	server, env := environment(t)
	return callWith(t, server, env, stdin, args...)
}

// inMemory is the REDIS_URL of commands in memory. Nothing listens there.
const inMemory = "redis://127.0.0.1:1/0"

// environment returns the environment of commands that share a Redis in memory, which has their records too. It serves
// testing/synctest bubbles.
func environment(t *testing.T) (*memredis.Redis, map[string]string) {
	t.Helper()
	return memredis.New(t), map[string]string{"REDIS_URL": inMemory}
}

func callWith(t *testing.T, server *memredis.Redis, env map[string]string, stdin string, args ...string) call {
	t.Helper()
	return callIn(t.Context(), server, env, stdin, args...)
}

func callIn(
	ctx context.Context, server *memredis.Redis, env map[string]string, stdin string, args ...string,
) call {
	var out, errs bytes.Buffer
	if server != nil {
		ctx = connect.WithDial(ctx, server.Dial)
	}
	code := cli.Run(ctx, rootCommand, args, cli.Environment{
		Getenv: func(k string) string { return env[k] },
		In:     strings.NewReader(stdin), Out: &out, Err: &errs,
	})
	return call{redis: server, code: code, out: out.String(), err: errs.String()}
}

func (c call) pending(t *testing.T) int {
	t.Helper()
	info, err := c.redis.Inspector().GetQueueInfo("default")
	if err != nil {
		return 0 // no task was ever enqueued
	}
	return info.Size
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const repositoryConfig = "../../../headway.yaml"

func line(id string, tokens int) string {
	return fmt.Sprintf(
		`{"custom_id":%q,"method":"POST","url":"/v1/chat/completions","body":{"model":"m","max_tokens":%d,`+
			`"messages":[{"role":"user","content":"hi"}]}}`,
		id, tokens)
}

func TestBatchOfTheExample(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := enqueueCommand(t, "", "batch", "../../../examples/godoc.jsonl", "--limit", "openai", "--config",
			repositoryConfig, "--json")
		var r result
		if err := json.Unmarshal([]byte(c.out), &r); err != nil || c.code != cli.ExitOK {
			t.Fatalf("exit %d, %v: %s%s", c.code, err, c.out, c.err)
		}
		if r.Enqueued != 400 || r.Faulty != 0 || c.pending(t) != 400 {
			t.Errorf("result %+v, pending %d", r, c.pending(t))
		}
	})
}

func TestFaultyLinesEnqueueNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		text := strings.Join([]string{line("a", 10), `{"custom_id":"b"`, line("a", 10), "", line("c", 10)}, "\n")
		c := enqueueCommand(t, text, "batch", "-", "--limit", "openai", "--config", repositoryConfig)
		if c.code != cli.ExitUsage || c.pending(t) != 0 {
			t.Errorf("exit %d, pending %d", c.code, c.pending(t))
		}
		for _, want := range []string{"line 2", "line 3", "custom_id", "--skip-invalid"} {
			if !strings.Contains(c.err, want) {
				t.Errorf("%q is missing in %s", want, c.err)
			}
		}
	})
}

func TestSkipInvalidEnqueuesTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		text := strings.Join([]string{line("a", 10), `{"custom_id":"b"`, line("c", 10)}, "\n")
		c := enqueueCommand(t, text, "batch", "-", "--limit", "openai", "--config", repositoryConfig, "--skip-invalid")
		if c.code != cli.ExitFailed || c.pending(t) != 2 || !strings.Contains(c.err, "line 2") {
			t.Errorf("exit %d, pending %d: %s", c.code, c.pending(t), c.err)
		}
	})
}

func TestChargeThatCanNeverBeServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		config := write(t, "headway.yaml", "limits: {small: {meters: {tokens: {rate: 100/s, max_reserved: 50}}}}")
		c := enqueueCommand(t, line("a", 5000), "batch", "-", "--limit", "small", "--config", config)
		if c.code != cli.ExitUsage || c.pending(t) != 0 || !strings.Contains(c.err, "line 1") ||
			!strings.Contains(c.err, "more than can ever be served") {
			t.Errorf("exit %d: %s", c.code, c.err)
		}
	})
}

func TestFaultsOfTheCommandLine(t *testing.T) {
	t.Parallel()
	bad := write(t, "bad.yaml", "limits: {a: {meters: {r: 5/fortnight}}}\nconcurency: 3")
	for name, tc := range map[string]struct {
		args []string
		want []string
	}{
		"no limit": {[]string{"batch", "-", "--config", repositoryConfig}, []string{"--limit is required"}},
		"unknown limit": {
			[]string{"batch", "-", "--limit", "none", "--config", repositoryConfig},
			[]string{"unknown limit", `"none"`, "openai"},
		},
		"no batch": {[]string{"results"}, []string{"wants one BATCH", "headway status", "--help"}},
		"wrong file": {
			[]string{"batch", "commands.go", "--limit", "openai", "--config", repositoryConfig},
			[]string{"not one is a request", "right file", "line 1"},
		},
		"unknown flag": {[]string{"batch", "-", "--limt", "x"}, []string{"--limt", "--help"}},
		"no file": {
			[]string{"batch", "missing.jsonl", "--limit", "openai", "--config", repositoryConfig},
			[]string{"missing.jsonl"},
		},
		"empty input": {
			[]string{"batch", "-", "--limit", "openai", "--config", repositoryConfig},
			[]string{"no lines"},
		},
		"no config": {
			[]string{"batch", "-", "--limit", "openai", "--config", "none.yaml"},
			[]string{"none.yaml", "--config"},
		},
		"bad config": {[]string{"batch", "-", "--limit", "a", "--config", bad}, []string{
			bad, "limits.a.meters.r",
			"fortnight", "concurency",
		}},
		"keep nothing": {
			[]string{"batch", "-", "--limit", "openai", "--keep", "0", "--config", repositoryConfig},
			[]string{"--keep", "1m", "twice"},
		},
		"in and at": {
			[]string{"enqueue", "hi", "--limit", "openai", "--in", "1h", "--at", "2030-01-01T00:00:00Z"},
			[]string{"exclude each other"},
		},
		"bad time": {
			[]string{"enqueue", "hi", "--limit", "openai", "--at", "tomorrow"},
			[]string{"2026-12-24T18:00:00Z"},
		},
		"no headroom": {
			[]string{"enqueue", "hi", "--limit", "openai", "--urgent", "--config", repositoryConfig},
			[]string{"--urgent", "headroom", "openai"},
		},
		"nothing to say": {[]string{"enqueue", "--limit", "openai"}, []string{"PROMPT or --body"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := enqueueCommand(t, "", tc.args...)
				if c.code != cli.ExitUsage || c.pending(t) != 0 {
					t.Errorf("exit %d: %s", c.code, c.err)
				}
				for _, want := range tc.want {
					if !strings.Contains(c.err, want) {
						t.Errorf("%q is missing in %s", want, c.err)
					}
				}
			})
		})
	}
}

func TestServicesThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	dead := map[string]string{
		"REDIS_URL":   "redis://user:secret@127.0.0.1:1/0",
		"MONGODB_URI": "mongodb://user:secret@127.0.0.1:1/",
	}
	c := callWith(t, nil, dead, "", "enqueue", "hi", "--limit", "openai", "--config", repositoryConfig)
	if c.code != cli.ExitUnavailable || !strings.Contains(c.err, "REDIS_URL") ||
		!strings.Contains(c.err, "docker compose up") || strings.Contains(c.err, "secret") {
		t.Errorf("exit %d: %s", c.code, c.err)
	}
	server := memredis.New(t)
	dead["REDIS_URL"] = inMemory
	c = callWith(t, server, dead, "", "enqueue", "hi", "--limit", "openai", "--config", repositoryConfig)
	if c.code != cli.ExitOK || strings.Contains(c.err, "secret") { // its place needs no bucket
		t.Errorf("exit %d: %s", c.code, c.err)
	}
	dead["REDIS_URL"] = "redis://user:sec ret@%zz"
	c = callWith(t, nil, dead, "", "enqueue", "hi", "--limit", "openai", "--config", repositoryConfig)
	if c.code != cli.ExitUsage || strings.Contains(c.err, "sec ret") {
		t.Errorf("exit %d: %s", c.code, c.err)
	}
}

func TestOneForLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := enqueueCommand(t, "", "enqueue", "Good morning", "--limit", "openai", "--in", "8h", "--config", repositoryConfig,
			"--json")
		var got enqueued
		if err := json.Unmarshal([]byte(c.out), &got); err != nil || c.code != cli.ExitOK {
			t.Fatalf("exit %d, %v: %s%s", c.code, err, c.out, c.err)
		}
		if got.State != "scheduled" || got.ID == "" || got.Queue != "default" {
			t.Errorf("task is %+v", got)
		}
	})
}

// With --urgent all charges are urgent, for any kind of request and limit.
func TestUrgent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := write(t, "headroom.yaml", `
limits:
  tenants: {meters: {requests: 10/s}}
  openai: {meters: {requests: {rate: 10/s, headroom: 5}, tokens: 10000/s}}
`)
		lines := line("a", 5) + `
{"custom_id":"b","method":"POST","url":"/v1/embeddings","body":{"model":"m","input":"a"}}
{"custom_id":"c","method":"POST","url":"/v1/responses","body":{"model":"m","input":"a"}}
{"custom_id":"d","method":"GET","url":"http://example.com","charge":{"requests":1,"tokens":0}}`
		for name, tc := range map[string]struct {
			args []string
			want int
		}{"enqueue": {[]string{"enqueue", "hi"}, 1}, "batch": {[]string{"batch", "-"}, 4}} {
			c := enqueueCommand(t, lines, append(tc.args, "--urgent", "--limit", "tenants:a", "--limit", "openai",
				"--config", file)...)
			if c.code != cli.ExitOK {
				t.Fatalf("exit %d: %s", c.code, c.err)
			}
			waiting, err := c.redis.Inspector().ListScheduledTasks("default")
			if err != nil || len(waiting) != tc.want {
				t.Errorf("%s enqueued %v, %v", name, waiting, err)
			}
			for _, info := range waiting {
				charges, err := envelope.Charges(asynq.NewTaskWithHeaders(info.Type, info.Payload, info.Headers))
				if err != nil || len(charges) != 2 || !charges[0].Urgent || !charges[1].Urgent {
					t.Errorf("%s: %s takes %v, %v", name, info.Type, charges, err)
				}
			}
		}
	})
}

const sharingConfig = `
limits:
  tenants: {meters: {requests: 10/s}}
  openai: {priorities: {interactive: 9, batch: 1}, meters: {requests: 10/s, tokens: 10000/s}}
`

// Flow and priority apply to every limit, for any kind of request. A batch without a flow is a flow of its own in each
// limit.
func TestFlowAndPriority(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := write(t, "sharing.yaml", sharingConfig)
		lines := line("a", 5) + `
{"custom_id":"b","method":"POST","url":"/v1/embeddings","body":{"model":"m","input":"a"}}
{"custom_id":"d","method":"GET","url":"http://example.com","charge":{"requests":1,"tokens":0}}`
		for name, tc := range map[string]struct {
			args  []string
			tasks int
			flow  string
		}{
			"enqueue": {[]string{"enqueue", "hi", "--flow", "user 7"}, 1, "user 7"},
			"batch":   {[]string{"batch", "-", "--flow", "user 7"}, 3, "user 7"},
			"plain":   {[]string{"batch", "-"}, 3, ""},
		} {
			c := enqueueCommand(t, lines,
				append(tc.args, "--priority", "interactive", "--limit", "tenants:a", "--limit", "openai", "--config", file)...)
			charged := c.charged(t)
			if c.code != cli.ExitOK || len(charged) != tc.tasks {
				t.Fatalf("%s: exit %d: %s", name, c.code, c.err)
			}
			for _, charges := range charged {
				first, last := charges[0], charges[1]
				if first.Priority != "interactive" || last.Priority != "interactive" || first.Flow != last.Flow ||
					tc.flow != "" && first.Flow != tc.flow || tc.flow == "" && len(first.Flow) != 16 {
					t.Errorf("%s takes %+v", name, charges)
				}
			}
		}
	})
}

func TestFlowsThatAreRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := write(t, "sharing.yaml", sharingConfig)
		for want, args := range map[string][]string{
			"has 10000 bytes: must be at most 128": {"--limit", "openai", "--flow", strings.Repeat("x", 10000)},
			`there are "batch", "interactive"`:     {"--limit", "openai", "--priority", "urgent"},
			"limit tenants:a has no priorities":    {"--limit", "tenants:a", "--priority", "batch"},
			"must hold no control characters":      {"--limit", "openai", "--flow", "a\tb"},
		} {
			for _, command := range [][]string{{"enqueue", "hi"}, {"batch", "-"}} {
				c := enqueueCommand(t, line("a", 5), append(append(command, "--config", file), args...)...)
				if c.code != cli.ExitUsage || !strings.Contains(c.err, want) || len(c.err) > 500 || c.pending(t) != 0 {
					t.Errorf("%q: exit %d: %s", args, c.code, c.err)
				}
			}
		}
	})
}

func TestHelpTeaches(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--help"}, {"batch", "--help"}, {"enqueue", "--help"}} {
		c := enqueueCommand(t, "", args...)
		if c.code != cli.ExitOK || !strings.Contains(c.out, "Examples:") && len(args) > 1 {
			t.Errorf("%q: exit %d: %s", args, c.code, c.out)
		}
	}
}

// rootCommand is a `headway` with the commands of this package alone.
func rootCommand(env cli.Environment) *cobra.Command {
	root := &cobra.Command{Use: "headway"}
	root.AddCommand(Commands(env)...)
	return root
}
