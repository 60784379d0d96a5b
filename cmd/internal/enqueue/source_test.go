package enqueue

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/reservations"
)

const tenantsConfig = `limits:
  tenants: {meters: {requests: {rate: 10/s, max_reserved: 0}, output_tokens: {rate: 100/s, capacity: 50}}}
  openai: {meters: {requests: 50/s, tokens: {rate: 1000/s, capacity: 40, max_reserved: 1000}}}
`

// charged returns the charges of the tasks that a command enqueued.
func (c call) charged(t *testing.T) [][]reservations.Charge {
	t.Helper()
	inspector := c.redis.Inspector()
	pending, err := inspector.ListScheduledTasks("default")
	if err != nil {
		t.Fatal(err)
	}
	var all [][]reservations.Charge
	for _, p := range pending {
		charges, err := envelope.Charges(asynq.NewTaskWithHeaders(p.Type, p.Payload, p.Headers))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, charges)
	}
	return all
}

func TestSeveralLimits(t *testing.T) {
	t.Parallel()
	config := write(t, "headway.yaml", tenantsConfig)
	const body = `{"max_tokens":10,"messages":[{"role":"user","content":"hi"}]}`
	tenant := func(key string, n float64) reservations.Charge {
		return reservations.Charge{Limit: "tenants", Key: key, Tokens: reservations.Tokens{
			"requests":      1,
			"output_tokens": n,
		}}
	}
	provider := func(key string, n float64) reservations.Charge {
		return reservations.Charge{Limit: "openai", Key: key, Tokens: reservations.Tokens{"requests": 1, "tokens": n}}
	}
	for name, tc := range map[string]struct {
		args []string
		want []reservations.Charge
	}{
		"enqueue":    {[]string{"--limit", "openai"}, []reservations.Charge{provider("", 18)}},
		"with a key": {[]string{"--limit", "openai:a:b"}, []reservations.Charge{provider("a:b", 18)}},
		"narrowest first": {
			[]string{"--limit", "tenants:acme", "--limit", "openai"},
			[]reservations.Charge{tenant("acme", 10), provider("", 18)},
		},
		"key of the last": {
			[]string{"--limit", "tenants:acme", "--limit", "openai", "--key", "eu"},
			[]reservations.Charge{tenant("acme", 10), provider("eu", 18)},
		},
		"one limit, keys": {
			[]string{"--limit", "tenants:acme", "--limit", "tenants"},
			[]reservations.Charge{tenant("acme", 10), tenant("", 10)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				for _, args := range [][]string{{"batch", "-", "--config", config}, {
					"enqueue", "--body", body, "--config",
					config,
				}} {
					c := enqueueCommand(t, line("a", 10), append(args, tc.args...)...)
					got := c.charged(t)
					for i := range got[0] {
						if flow := got[0][i].Flow; (args[0] == "batch") != (len(flow) == 16) { // a batch is a flow of its own
							t.Errorf("%s: flow %q", args[0], flow)
						}
						got[0][i].Flow = ""
					}
					if diff := cmp.Diff([][]reservations.Charge{tc.want}, got); diff != "" ||
						c.code != cli.ExitOK || c.err != "" {
						t.Errorf("%s: exit %d: %s%s", args[0], c.code, c.err, diff)
					}
				}
			})
		})
	}
}

// The command checks each limit, and prints warnings for it.
func TestSeveralLimitsAreChecked(t *testing.T) {
	t.Parallel()
	config := write(t, "headway.yaml", tenantsConfig)
	for name, tc := range map[string]struct {
		args  []string
		input string
		code  int
		want  []string
	}{
		"unknown": {
			[]string{"--limit", "tenant:acme", "--limit", "openai"},
			line("a", 10), cli.ExitUsage,
			[]string{"unknown limit", `"tenant"`, "tenants"},
		},
		"twice": {
			[]string{"--limit", "openai", "--limit", "openai"},
			line("a", 10), cli.ExitUsage,
			[]string{"two charges are for openai", "openai, openai"},
		},
		"two keys": {
			[]string{"--limit", "tenants:acme", "--limit", "openai:eu", "--key", "us"},
			line("a", 10),
			cli.ExitUsage,
			[]string{"--limit openai:eu and --key us", "leave one out"},
		},
		"no key": {
			[]string{"--limit", "openai:"},
			line("a", 10), cli.ExitUsage,
			[]string{"--limit openai:", "key"},
		},
		"too many": {strings.Fields("--limit=openai:1 --limit=openai:2 --limit=openai:3 --limit=openai:4 " +
			"--limit=openai:5 --limit=openai:6 --limit=openai:7 --limit=openai:8 " +
			"--limit=openai"), line("a", 10), cli.ExitUsage, []string{"8 charges at most"}},
		"never served": {
			[]string{"--limit", "tenants:acme", "--limit", "openai"},
			line("a", 1000000), cli.ExitUsage,
			[]string{"line 1", "more than can ever be served"},
		},
		"above the wide": {
			[]string{"--limit", "tenants:acme", "--limit", "openai"},
			line("a", 45), cli.ExitUsage,
			[]string{"line 1: body:", "reserves 53 tokens, above the capacity of 40 of limit openai", "--allow-large"},
		},
		"large ones are allowed": {
			[]string{"--limit", "tenants:acme", "--limit", "openai", "--allow-large"},
			line("a", 45), cli.ExitOK, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := enqueueCommand(t, tc.input, append([]string{"batch", "-", "--config", config}, tc.args...)...)
				if queued := c.pending(t); c.code != tc.code || (queued == 1) != (tc.code == cli.ExitOK) {
					t.Errorf("exit %d, %d enqueued: %s", c.code, queued, c.err)
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

// The error of a file that is no batch names the file, also in the command that makes one of it.
func TestWrongFileIsNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for text, want := range map[string]string{`[{"custom_id": "a"}]`: "jq -c '.[]' ", "": ""} {
			in := write(t, "in.json", text)
			if c := w.call(t, "batch", in, "--limit", "openai"); c.code != cli.ExitUsage || !strings.Contains(c.err, want+in) {
				t.Errorf("exit %d, want %q: %s", c.code, want+in, c.err)
			}
		}
	})
}
