package fleet

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/internal/setup/cli"
)

// limitsBundle is a file of limits and a database of the test's own.
type limitsBundle struct {
	t    *testing.T
	file string
	env  map[string]string
}

func setupLimits(t *testing.T) *limitsBundle {
	t.Helper()
	env, _ := memory(t)
	env["USER"] = "ann"
	b := &limitsBundle{t: t, file: filepath.Join(t.TempDir(), "headway.yaml"), env: env}
	b.write("limits: {openai: {meters: {requests: 500/m, tokens: {rate: 200000/m, capacity: 20000}}}}")
	return b
}

func (b *limitsBundle) write(text string) {
	b.t.Helper()
	if err := os.WriteFile(b.file, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// run runs `headway limits` and wants an exit code and texts in what it prints.
func (b *limitsBundle) run(code int, wants []string, args ...string) string {
	b.t.Helper()
	got, out, errs := command(b.t, b.env, append(append([]string{"limits"}, args...), "--config", b.file)...)
	if got != code {
		b.t.Errorf("%v: exit %d: %s%s", args, got, out, errs)
	}
	for _, want := range wants {
		if !strings.Contains(out+errs, want) {
			b.t.Errorf("%v: %q is not in:\n%s%s", args, want, out, errs)
		}
	}
	return out
}

func (b *limitsBundle) list() []listed {
	b.t.Helper()
	var rows []listed
	if err := json.Unmarshal([]byte(b.run(cli.ExitOK, nil, "list", "--json")), &rows); err != nil {
		b.t.Fatal(err)
	}
	for i, r := range rows {
		if r.Override != nil && (r.SetAt == nil || !strings.HasPrefix(r.SetBy, "ann@")) {
			b.t.Errorf("%+v does not say who set it and when", r)
		}
		rows[i].SetAt, rows[i].SetBy = nil, ""
	}
	return rows
}

func TestLimitsAreSetListedAndUnset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupLimits(t)
		b.run(cli.ExitOK, []string{
			"openai.requests: 300/m, at most 300 at once", "was: 500/m, at most 500 at once",
			"follows within 2s", "headway limits unset openai.requests",
		},
			"set", "openai.requests", "300/m")
		b.run(cli.ExitOK, []string{"was: 300/m", "100/s, at most 100 at once"}, "set", "openai.requests", "100/s")
		b.run(cli.ExitOK, []string{
			"openai.tokens of key acme: 50000/m, at most 20000 at once",
			"unset openai.tokens --key acme",
		}, "set", "openai.tokens", "50000/m", "--key", "acme")
		b.run(cli.ExitOK, []string{"`headway limits unset openai.tokens --key 'a b'`"}, "set", "openai.tokens", "7/s",
			"--key", "a b")
		b.run(cli.ExitOK, nil, "unset", "openai.tokens", "--key", "a b")
		b.run(cli.ExitOK, []string{"openai.tokens: 1000/m, at most 5 at once"}, "set", "openai.tokens", "1_000/min",
			"--capacity", "5")
		requests, tokens := &listedRate{"500/m", 500}, &listedRate{"200000/m", 20000}
		want := []listed{
			{Limit: "openai", Meter: "requests", Configured: requests, Override: &listedRate{"100/s", 100}},
			{Limit: "openai", Meter: "tokens", Configured: tokens, Override: &listedRate{"1000/m", 5}},
			{Limit: "openai", Key: "acme", Meter: "tokens", Configured: tokens, Override: &listedRate{"50000/m", 20000}},
		}
		if diff := cmp.Diff(want, b.list()); diff != "" {
			t.Error(diff)
		}
		out := b.run(cli.ExitOK, []string{"LIMIT", "CONFIGURED", "500/m, at most 500", "100/s, at most 100", "ann@"},
			"list")
		if strings.Contains(out, "\x1b") || strings.Count(out, "\n") != 4 {
			t.Errorf("the table is\n%q", out)
		}

		b.run(cli.ExitOK, []string{"openai.tokens of key acme: 1000/m, at most 5 at once", "was: 50000/m"}, "unset",
			"openai.tokens", "--key", "acme")
		b.run(cli.ExitOK, []string{"openai.requests: 500/m, at most 500 at once"}, "unset", "openai.requests")
		b.run(cli.ExitOK, []string{"openai.requests: nothing was set"}, "unset", "openai.requests")
		b.run(cli.ExitOK, nil, "set", "openai.requests", "3/m", "--capacity", "0.5")
		b.run(cli.ExitOK, []string{"was: 3/m, at most 0.5 at once"}, "unset", "openai.requests")
		b.run(cli.ExitUsage, []string{"-3/m is no rate: it must be positive"}, "set", "openai.requests", "-3/m")
		b.run(cli.ExitUsage, []string{"unknown shorthand flag: 'x'"}, "set", "openai.requests", "-x")

		b.write("limits: {groq: {meters: {requests: 30/m}}}") // openai.tokens stays behind
		b.run(cli.ExitOK, []string{"openai", "ignored: no limit has such a meter"}, "list")
		b.run(cli.ExitOK, []string{"openai.tokens: is in no live worker, and not in " + b.file}, "unset", "openai.tokens")
		if diff := cmp.Diff([]listed{{Limit: "groq", Meter: "requests", Configured: &listedRate{"30/m", 30}}},
			b.list()); diff != "" {
			t.Error(diff)
		}
	})
}

// Calls in flight are set as a number, a pure queue as a capacity of zero; a rate that is set ends what is adaptive.
func TestLimitsOfOtherKindsAreSet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupLimits(t)
		b.write("limits: {openai: {in_flight: 20, meters: {requests: {adaptive: {min: 10/m, max: 500/m}}}}}")
		b.run(cli.ExitOK, []string{"openai.in_flight: at most 30 at once", "was: at most 20 at once"},
			"set", "openai.in_flight", "30")
		b.run(cli.ExitOK, []string{"openai.in_flight of key acme: at most 3 at once", "was: at most 30 at once"},
			"set", "openai.in_flight", "3", "--key", "acme")
		b.run(cli.ExitOK, []string{
			"openai.requests: 60/m, one after another", "was: adaptive from 10/m to 500/m, at most 10 at once",
		}, "set", "openai.requests", "60/m", "--capacity", "0")
		calls := &listedRate{"in flight", 20}
		want := []listed{
			{Limit: "openai", Meter: "in_flight", Configured: calls, Override: &listedRate{"in flight", 30}},
			{Limit: "openai", Key: "acme", Meter: "in_flight", Configured: calls, Override: &listedRate{"in flight", 3}},
			{
				Limit: "openai", Meter: "requests", Configured: &listedRate{"adaptive from 10/m to 500/m", 10},
				Override: &listedRate{"60/m", 0},
			},
		}
		if diff := cmp.Diff(want, b.list()); diff != "" {
			t.Error(diff)
		}
		b.run(cli.ExitOK, []string{"in flight, at most 30", "60/m, one after another"}, "list")
		for _, n := range []string{"0", "2.5", "1001", "many", "5/m"} {
			b.run(cli.ExitUsage, []string{`"` + n + `" must be a whole number of calls, from 1 to 1000`},
				"set", "openai.in_flight", n)
		}
		b.run(cli.ExitUsage, []string{"--capacity: calls in flight have none"},
			"set", "openai.in_flight", "3", "--capacity", "4")
		b.run(cli.ExitOK, []string{"openai.in_flight: at most 20 at once", "was: at most 30 at once"}, "unset",
			"openai.in_flight")
		b.run(cli.ExitOK, []string{"requests: adaptive from 10/m", "was: 60/m, one after another"}, "unset",
			"openai.requests")
	})
}

func TestLimitsThatCannotBeSet(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"limit": {
			[]string{"set", "opanai.requests", "5/m"},
			`there is no meter "opanai.requests"; there are "openai.requests", "openai.tokens"`,
		},
		"meter":     {[]string{"set", "openai.images", "5/m"}, `there is no meter "openai.images"`},
		"in flight": {[]string{"set", "openai.in_flight", "30"}, "limit openai has no in_flight: add it where"},
		"no meter":  {[]string{"set", "openai", "5/m"}, `there is no meter "openai"; there are "openai.requests"`},
		"no unit": {
			[]string{"set", "openai.requests", "500"},
			`rate "500" must be a number, a slash and a period: 500/s a second, 500/m a minute`,
		},
		"unit":        {[]string{"set", "openai.requests", "5/fortnight"}, `period "fortnight" must be`},
		"negative":    {[]string{"set", "openai.requests", "--", "-5/m"}, "requests.rate: -5"},
		"zero":        {[]string{"set", "openai.requests", "0/m"}, "requests.rate: 0"},
		"zero period": {[]string{"set", "openai.requests", "5/0s"}, "requests.period: 0s"},
		"microseconds": {
			[]string{"set", "openai.requests", "5/10us"},
			"requests.period: 10µs must be whole milliseconds",
		},
		"capacity": {
			[]string{"set", "openai.requests", "5/m", "--capacity=-1"},
			"--capacity: -1 must not be negative",
		},
		"NaN": {
			[]string{"set", "openai.requests", "5/m", "--capacity", "NaN"},
			"--capacity: NaN must not be negative",
		},
		"arguments": {[]string{"set", "openai.requests"}, "wants LIMIT.METER and RATE; got 1 argument"},
		"unset":     {[]string{"unset", "openai.images"}, `there is no meter "openai.images"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := *b
			at.t = t
			args := c.args
			if name == "negative" { // flags can't stand behind the dashes
				code, _, errs := command(t, b.env, append([]string{"limits", "set", "--config", b.file},
					args[1:]...)...)
				if code != cli.ExitUsage || !strings.Contains(errs, c.want) {
					t.Errorf("exit %d: %s", code, errs)
				}
				return
			}
			at.run(cli.ExitUsage, []string{c.want}, args...)
		})
	}
}

func TestLimitsOfAFileWithoutThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupLimits(t)
		b.write("limits: {}")
		b.run(cli.ExitUsage, []string{
			`there is no meter "a.b": neither the file nor a live worker has limits; name the file of the workers with --config`,
		}, "set", "a.b", "1/m")
	})
}

// An ambiguous name is refused, so that it is clear which of two meters was set.
func TestLimitsThatCanBeMeantTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupLimits(t)
		b.write("limits: {a: {meters: {b.c: 5/m}}, a.b: {meters: {c: 7/m}}}")
		b.run(cli.ExitUsage, []string{
			`"a.b.c" is meter b.c of limit a, and meter c of limit a.b: give one of them another name`,
		}, "set", "a.b.c", "1/m")
	})
}

func TestLimitsWithoutMongoDB(t *testing.T) {
	t.Parallel()
	env := map[string]string{"MONGODB_URI": "mongodb://u:secret@127.0.0.1:1/"}
	for _, args := range [][]string{
		{"limits", "list"},
		{"limits", "set", "openai.requests", "5/m"},
		{"limits", "unset", "openai.requests"},
	} {
		code, _, errs := command(t, env, append(args, "--config", "../../../headway.yaml")...)
		if code != cli.ExitUnavailable || !strings.Contains(errs, "MONGODB_URI") || strings.Contains(errs, "secret") {
			t.Errorf("%v: exit %d: %s", args, code, errs)
		}
	}
}

func TestLimitsWithoutACommand(t *testing.T) {
	t.Parallel()
	if code, out, _ := command(t, nil, "limits"); code != cli.ExitOK || !strings.Contains(out, "unset") {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, _, errs := command(t, nil, "limits", "sett"); code != cli.ExitUsage || !strings.Contains(errs, `"sett"`) {
		t.Errorf("exit %d: %s", code, errs)
	}
}

func TestTableInColour(t *testing.T) {
	t.Parallel()
	rows := []listed{
		{Limit: "a", Meter: "r", Configured: &listedRate{"5/m", 5}},
		{Limit: "b", Meter: "r", Configured: &listedRate{"5/m", 5}, Override: &listedRate{"6/m", 6}},
	}
	if text := limitsTable(rows, 0, true); strings.Count(text, "\x1b[1m") != 1 || !strings.Contains(text, "\x1b[1mb ") {
		t.Errorf("%q", text)
	}
}

// A rate far above the present one is warned of.
func TestLimitsSetFarAbove(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupLimits(t)
		b.run(cli.ExitOK, []string{"warning: 1e9/m is 2000000 times the present rate of openai.requests, 500/m"},
			"set", "openai.requests", "1e9/m")
		if out := b.run(cli.ExitOK, nil, "set", "openai.tokens", "400000/m"); strings.Contains(out, "warning") {
			t.Error(out)
		}
	})
}

// A rate can be set beside an override that the file does not allow any more.
func TestLimitsSetBesideAFaultyOverride(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupLimits(t)
		b.run(cli.ExitOK, nil, "set", "openai.requests", "60/m", "--capacity", "5")
		b.write("limits: {openai: {meters: {requests: {rate: 500/m, headroom: 50}, tokens: 200000/m}}}")
		b.run(cli.ExitOK, []string{"openai.tokens: 300000/m, at most 300000 at once"}, "set", "openai.tokens", "300000/m")
		b.run(cli.ExitOK, []string{"ignored: no limit can be so"}, "list")
	})
}
