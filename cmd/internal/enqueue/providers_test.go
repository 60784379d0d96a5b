package enqueue

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/tasks/llm"
)

const twoProviders = `
limits: {openai: {meters: {requests: 100/s}}, gpu: {meters: {requests: 100/s}}, tenants: {meters: {requests: 100/s}}}
providers:
  openai: {base_url: "https://api.openai.com/v1", key: OPENAI_API_KEY, models: [gpt-4o-mini]}
  local: {base_url: "http://127.0.0.1:11434/v1", limits: [gpu], models: [llama]}
`

// Without --limit a request takes from the limit of its model's provider. A call needs a limit with a provider.
func TestModelsChooseTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, env := environment(t)
		config := write(t, "headway.yaml", twoProviders)
		inspector := server.Inspector()
		for _, tc := range []struct{ args, limits string }{
			{"enqueue hi", "openai"},
			{"enqueue hi --model llama", "gpu"},
			{"enqueue hi --model llama --limit openai", "openai"},
			{"enqueue hi --limit tenants:a --limit gpu", "tenants:a gpu"},
			{`enqueue --body {"model":"llama","messages":[{"role":"user","content":"hi"}]}`, "gpu"},
		} {
			c := callWith(t, server, env, "", append(strings.Fields(tc.args), "--config", config)...)
			info, err := inspector.GetTaskInfo("default", strings.TrimSpace(c.out))
			if err != nil {
				t.Fatalf("%s: exit %d, %v: %s", tc.args, c.code, err, c.err)
			}
			var call llm.Call
			if err := json.Unmarshal(info.Payload, &call); err != nil {
				t.Fatal(err)
			}
			var limits []string
			for _, charge := range call.Taken {
				limits = append(limits, charge.Bucket().String())
			}
			if got := strings.Join(limits, " "); got != tc.limits {
				t.Errorf("%s: takes from %q", tc.args, got)
			}
		}
		for args, fault := range map[string]string{
			"enqueue hi --model other":    "--limit is required",
			"enqueue hi --limit tenants":  `no provider has limit "tenants"`,
			"batch - --limit tenants":     `no provider has limit "tenants"`,
			"batch -":                     "--limit is required: name a limit of ",
			"batch - --model gpt-4o-mini": "", // this is right
		} {
			c := callWith(t, server, env, line("a", 9), append(strings.Fields(args), "--config", config)...)
			if want := map[bool]int{true: cli.ExitOK, false: cli.ExitUsage}[fault == ""]; c.code != want ||
				!strings.Contains(c.err, fault) {
				t.Errorf("%s: exit %d: %s%s", args, c.code, c.out, c.err)
			}
		}
	})
}
