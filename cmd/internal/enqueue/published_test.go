package enqueue

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/reservations"
)

// publish enters a live worker with the limit "vendor", as a Go program does.
func publish(t *testing.T, server *memredis.Redis) {
	t.Helper()
	if err := register.New(server.Client).Renew(t.Context(), "w1", register.Member{
		Name: "host:1", Limits: register.ByName([]reservations.Limit{{Name: "vendor", Meters: []reservations.Meter{
			{Name: "requests", Rate: 10, Period: time.Second}, {Name: "tokens", Rate: 1000, Period: time.Second},
		}}}),
	}); err != nil {
		t.Fatal(err)
	}
}

// Requests take from the limits of live workers, without a file and beside one that lacks them.
func TestLimitsOfLiveWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, env := environment(t)
		publish(t, server)
		file := write(t, "headway.yaml", "limits: {openai: {meters: {requests: 5/s, tokens: 1000/s}}}")
		waiting := 0
		for _, args := range [][]string{
			{"enqueue", "hi", "--limit", "vendor"},
			{"enqueue", "hi", "--limit", "vendor:acme", "--limit", "openai", "--config", file},
			{"batch", "-", "--limit", "vendor"},
			{"batch", "-", "--limit", "openai:acme", "--limit", "vendor", "--config", file},
		} {
			c := callWith(t, server, env, line("a", 10), args...)
			if waiting++; c.code != cli.ExitOK || c.pending(t) != waiting || c.err != "" {
				t.Errorf("%q: exit %d, %d pending: %s", args, c.code, c.pending(t), c.err)
			}
		}
	})
}

// A published limit checks requests as one of the file does.
func TestPublishedLimitsCheck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, env := environment(t)
		publish(t, server)
		file := write(t, "headway.yaml", "limits: {openai: {meters: {requests: 5/s, tokens: 1000/s}}}")
		urgent := []string{"--limit", "openai", "--urgent", "--config", file}
		for want, args := range map[string][]string{
			"above the capacity of 1000 of limit vendor":                           {"--limit", "vendor"},
			`there are "openai", "vendor"; did you mean "vendor"?`:                 {"--limit", "vendr", "--config", file},
			"--limit is required: name a limit of headway.yaml or of live workers": {},
			"has headroom; give it some in the settings of its workers":            {"--limit", "vendor", "--urgent"},
			"has headroom; give it some in " + file:                                urgent,
			"has no priorities; name them in the settings of its workers":          {"--limit", "vendor", "--priority", "x"},
		} {
			c := callWith(t, server, env, line("a", 5000), append([]string{"batch", "-"}, args...)...)
			if c.code != cli.ExitUsage || c.pending(t) != 0 || !strings.Contains(c.err, want) {
				t.Errorf("%q: exit %d, %q is not in: %s", args, c.code, want, c.err)
			}
		}
	})
}

// A file that has the limit counts: it needs no service to check a request.
func TestTheFileComesFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, env := environment(t)
		publish(t, server)
		file := write(t, "headway.yaml", "limits: {vendor: {meters: {requests: 5/s, tokens: 400/s}}}")
		c := callWith(t, server, env, line("a", 500), "batch", "-", "--limit", "vendor", "--config", file)
		if c.code != cli.ExitUsage || !strings.Contains(c.err, "above the capacity of 400") {
			t.Errorf("exit %d: %s", c.code, c.err)
		}
	})
}
