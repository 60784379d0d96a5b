package enqueue

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/reservations"
)

const pricedConfig = `
limits:
  tenants: {meters: {requests: 100/s}}
  openai: {meters: {requests: 100/s, tokens: {rate: 100/s, capacity: 200}}, in_flight: 50}
prices: {m: {input: 1, output: 2}}
`

// dryRun is `headway batch - --dry-run` without services.
func dryRun(t *testing.T, text string, args ...string) call {
	t.Helper()
	file := write(t, "headway.yaml", pricedConfig)
	return callWith(t, nil, nil, text, append([]string{"batch", "-", "--dry-run", "--config", file}, args...)...)
}

// A dry run counts what the requests take, and needs no services.
func TestDryRun(t *testing.T) {
	t.Parallel()
	var lines []string
	for n := range 10 {
		lines = append(lines, line(strings.Repeat("x", n+1), 100))
	}
	c := dryRun(t, strings.Join(lines, "\n"), "--limit", "tenants:acme", "--limit", "openai", "--json")
	var f forecast
	if err := json.Unmarshal([]byte(c.out), &f); err != nil || c.code != cli.ExitOK || c.err != "" {
		t.Fatalf("exit %d, %v: %s%s", c.code, err, c.out, c.err)
	}
	if f.Event != "dry_run" || f.Requests != 10 || f.Faulty != 0 || len(f.Meters) != 3 ||
		f.Meters[0].Bucket != "tenants:acme" || f.Meters[0].Tokens != 10 {
		t.Fatalf("forecast is %+v", f)
	}
	tokens := f.Meters[2]
	if tokens.Meter != "tokens" || tokens.Tokens < 1000 || tokens.Capacity != 200 ||
		tokens.OfLimit != tokens.Tokens/100 {
		t.Errorf("tokens are %+v", tokens)
	}
	if f.Scarce == nil || *f.Scarce != (meterName{"openai", "tokens"}) {
		t.Errorf("scarce is %+v", f.Scarce)
	}
	// The full bucket is there at once, the rest comes back at the rate; then the last call runs.
	if want := (tokens.Tokens-200)/100 + f.Call; f.Seconds == nil || math.Abs(*f.Seconds-want) > .1 {
		t.Errorf("lasts %v s, not %v", f.Seconds, want)
	}
	// 1000 tokens of answers cost 2 a million, and the prompts 1.
	if want := (2*1000 + tokens.Tokens - 1000) / 1e6; f.Cost == nil || math.Abs(*f.Cost-want) > 1e-9 {
		t.Errorf("costs %v, not %v", f.Cost, want)
	}
}

func TestDryRunAsText(t *testing.T) {
	t.Parallel()
	c := dryRun(t, line("a", 100)+"\n"+strings.Replace(line("b", 100), `"m"`, `"other"`, 1), "--limit", "openai")
	for _, want := range []string{
		"dry run of standard input: 2 requests for limit openai, 0 faulty lines; nothing was enqueued",
		"openai requests", "100/s, at most 200 at once", "of the limit", "duration  about ", "cost      at most about 0.000",
		"without other, which has no price", "workers   1 of concurrency 50, because about 2 calls run at once",
	} {
		if c.code != cli.ExitOK || !strings.Contains(c.out, want) {
			t.Errorf("exit %d, %q is not in:\n%s%s", c.code, want, c.out, c.err)
		}
	}
}

// A request that can never end has no duration.
func TestDryRunOfYears(t *testing.T) {
	t.Parallel()
	file := write(t, "headway.yaml", "limits: {slow: {meters: {tokens: {rate: 1/h, capacity: 50}}}}")
	args := []string{"batch", "-", "--limit", "slow", "--config", file, "--dry-run", "--allow-large"}
	c := callWith(t, nil, nil, line("a", 90_000)+"\n"+line("b", 90_000), args...)
	if c.code != cli.ExitOK || !strings.Contains(c.out, "duration  never: some requests would still wait after 10 years") {
		t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
	}
}

// A dry run names faulty lines and exits as the batch does, and enqueues nothing.
func TestDryRunExitsAsTheBatch(t *testing.T) {
	t.Parallel()
	faulty := strings.Join([]string{line("a", 10), `{"custom_id":"b"`, line("a", 10), line("c", 500)}, "\n")
	for name, tc := range map[string]struct {
		text  string
		args  []string
		code  int
		shown string
	}{
		"faulty":  {faulty, nil, cli.ExitUsage, "1 request for limit openai, 3 faulty lines"},
		"skipped": {faulty, []string{"--skip-invalid"}, cli.ExitFailed, "1 request for limit openai, 3 faulty lines"},
		"good":    {line("a", 10), nil, cli.ExitOK, "1 request for limit openai, 0 faulty lines"},
		"empty":   {"", nil, cli.ExitUsage, ""},
		"no good": {"{}", nil, cli.ExitUsage, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server, env := environment(t)
				file := write(t, "headway.yaml", pricedConfig)
				args := append([]string{"batch", "-", "--limit", "openai", "--config", file}, tc.args...)
				dry := callWith(t, server, env, tc.text, append(args, "--dry-run")...)
				if dry.code != tc.code || dry.pending(t) != 0 || len(keys(t, server)) != 0 ||
					!strings.Contains(dry.out, tc.shown) || tc.shown == "" && dry.out != "" {
					t.Errorf("exit %d, %v: %s%s", dry.code, keys(t, server), dry.out, dry.err)
				}
				sent := callWith(t, server, env, tc.text, args...)
				if sent.code != dry.code || sent.err != dry.err {
					t.Errorf("exit %d: %s\nthe dry run: exit %d: %s", sent.code, sent.err, dry.code, dry.err)
				}
			})
		})
	}
}

// keys returns all keys of a Redis but the epoch, which says that nothing was taken before.
func keys(t *testing.T, server *memredis.Redis) []string {
	t.Helper()
	all, err := server.Client.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(key string) bool { return key == "headway:{buckets}:epoch" })
}

// The JSON of a file without a good line has its faults.
func TestDryRunOfFaultsAsJSON(t *testing.T) {
	t.Parallel()
	c := dryRun(t, "{}\n{}", "--limit", "openai", "--json")
	var f forecast
	if err := json.Unmarshal([]byte(c.out), &f); err != nil || c.code != cli.ExitUsage || f.Faulty != 2 ||
		len(f.Faults) != 2 || f.Seconds != nil || f.Scarce != nil {
		t.Errorf("exit %d, %v: %s%s", c.code, err, c.out, c.err)
	}
}

// Where a fleet is named, its limits and the rates that are set count; if it does not answer, the ones of the file do.
func TestDryRunOfALiveFleet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, env := environment(t)
		publish(t, server)
		file := write(t, "headway.yaml", "limits: {vendor: {meters: {requests: 99/s, tokens: 9999/s}}}")
		args := []string{"batch", "-", "--limit", "vendor", "--config", file, "--dry-run", "--json"}
		forecastOf := func() (f forecast, c call) {
			c = callWith(t, server, env, line("a", 100), args...)
			if err := json.Unmarshal([]byte(c.out), &f); err != nil || c.code != cli.ExitOK || len(f.Meters) != 2 {
				t.Fatalf("exit %d, %v: %s%s", c.code, err, c.out, c.err)
			}
			return f, c
		}
		if f, c := forecastOf(); !f.Live || f.Meters[0].Capacity != 10 || c.err != "" || c.pending(t) != 0 {
			t.Errorf("by live workers: %+v, %s", f, c.err)
		}
		buckets := (&world{redis: server, env: env}).buckets(t)
		set := reservations.Override{
			Limit: "vendor", Meter: "requests", Rate: 3, Period: time.Second, SetAt: time.Now(), By: "ops",
		}
		if err := buckets.SetOverride(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		if f, _ := forecastOf(); f.Meters[0].Capacity != 3 {
			t.Errorf("by the rate that is set: %+v", f)
		}
		server = nil
		if f, c := forecastOf(); f.Live || f.Meters[0].Capacity != 99 ||
			!strings.Contains(c.err, "the fleet does not answer") {
			t.Errorf("without an answer: %+v, %s", f, c.err)
		}
		<-time.After(time.Minute) // go-redis dials in the background until then
	})
}

// A batch that may cost more than its budget is not enqueued, and neither is one whose cost is not known.
func TestBudgetOfABatch(t *testing.T) {
	t.Parallel()
	priced, other := line("a", 500_000), strings.Replace(line("b", 100), `"m"`, `"other"`, 1)
	for _, c := range []struct {
		text, budget, wants string
		code                int
	}{
		{priced, "1.1", "", cli.ExitOK}, // an answer of half a million tokens costs 1
		{priced, "0.9", "the requests may cost 1.00", cli.ExitUsage},
		{priced + "\n" + other, "5", "has no price for model other", cli.ExitUsage},
		{priced, "-1", "must be an amount", cli.ExitUsage},
		{priced, "NaN", "must be an amount", cli.ExitUsage},
	} {
		got := dryRun(t, c.text, "--limit", "tenants", "--budget", c.budget)
		if got.code != c.code || !strings.Contains(got.err, c.wants) {
			t.Errorf("--budget %s: exit %d: %s", c.budget, got.code, got.err)
		}
	}
	file := write(t, "free.yaml", "limits: {slow: {meters: {tokens: {rate: 1/h, capacity: 500}}}}")
	got := callWith(t, nil, nil, priced, "batch", "-", "--limit", "slow", "--config", file, "--budget", "1")
	if got.code != cli.ExitUsage || !strings.Contains(got.err, "has no prices") && !strings.Contains(got.err, "faulty") {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
}
