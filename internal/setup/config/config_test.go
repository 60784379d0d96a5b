package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/fleet/settings"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/reservations"
)

func TestTheRepositorysFile(t *testing.T) {
	t.Parallel()
	c, err := config.Load("../../../headway.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := config.Config{
		Limits: []reservations.Limit{{
			Name: "openai", Settle: reservations.SettleAdjust,
			Meters: []reservations.Meter{
				{Name: "requests", Rate: 500, Period: time.Minute},
				{Name: "tokens", Rate: 200000, Period: time.Minute, Capacity: 20000},
			},
		}},
		Settings: config.Settings{
			Queues: map[string]int{"default": 1}, Concurrency: 50, ShutdownTimeout: 30 * time.Second,
		},
	}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Error(diff)
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	c, err := config.Parse([]byte("limits: {a: {meters: {r: {rate: 1_0/10s, max_reserved: 0}}}}"))
	if err != nil {
		t.Fatal(err)
	}
	if m := c.Limits[0].Meters[0]; m.MaxReserved != reservations.None || m.Rate != 10 || m.Period != 10*time.Second {
		t.Errorf("meter is %+v", m)
	}
	if c.Concurrency != settings.Concurrency || c.Queues["default"] != 1 ||
		c.ShutdownTimeout != settings.ShutdownTimeout {
		t.Errorf("defaults are %+v", c)
	}
}

func TestHeadroom(t *testing.T) {
	t.Parallel()
	c, err := config.Parse([]byte("limits: {a: {ordinary_share: 0.2, meters: {r: {rate: 100/s, headroom: 30}, t: 5/s}}}"))
	if err != nil {
		t.Fatal(err)
	}
	if l := c.Limits[0]; l.OrdinaryShare != .2 || l.Meters[0].Headroom != 30 || l.Meters[1].Headroom != 0 {
		t.Errorf("limit is %+v", l)
	}
	if _, err = config.Parse(
		[]byte(`limits: {a: {meters: {r: {rate: 100/s, headroom: 30}, d: {rate: 1000/d, window: "00:00"}}}}`)); err != nil {
		t.Errorf("headroom beside a window: %v", err)
	}
	_, err = config.Parse([]byte("limits: {a: {ordinary_share: 2, meters: {r: {rate: 100/s, headroom: 100}}}}"))
	for _, want := range []string{"limits.a", "ordinary_share", "r.headroom"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

func TestAdaptive(t *testing.T) {
	t.Parallel()
	c, err := config.Parse([]byte("limits: {a: {meters: {r: {adaptive: {min: 10/m, max: 10/s, ramp: 5m}, capacity: 5}, " +
		"s: {adaptive: {min: 1/s, max: 1/s}}}}}"))
	if err != nil {
		t.Fatal(err)
	}
	m := reservations.PerMinute("r", 10)
	m.Capacity, m.Adaptive = 5, reservations.Adaptive{Max: 600, Ramp: 5 * time.Minute}
	if d := cmp.Diff(m, c.Limits[0].Meters[0]); d != "" {
		t.Errorf("meter (-want +got):\n%s", d)
	}
	for text, want := range map[string]string{
		"{adaptive: {min: 20/m, max: 10/m}}": "limits.a.meters.r.adaptive.min: 20/m is above max, 10/m",
		"{adaptive: {min: 0/m, max: 10/m}}": "limits.a.meters.r.adaptive.min: must be there and positive, " +
			"e.g. 10/m",
		"{adaptive: {min: 1/m}}": "limits.a.meters.r.adaptive.max: must be there and positive, " +
			"e.g. 500/m",
		"{adaptive: {}}": "limits.a.meters.r.adaptive.min: must be there and positive, " +
			"e.g. 10/m",
		"{adaptive: {min: -1/m, max: 5/m}}": "limits.a.meters.r.adaptive.min: must be there and positive, " +
			"e.g. 10/m",
		"{adaptive: {min: 1/m, max: 1e300/m}}": "limits.a.meters.r.adaptive.max: 1e+300 must be a number of " +
			"tokens that is no less than the lowest rate, 1, up to 1e+15",
		"{adaptive: {min: 1/m, max: 5/m, ramp: -1s}}": "limits.a.meters.r.adaptive.ramp: -1s must not be negative; " +
			"zero means 2m0s",
		"{adaptive: {min: 1/m, max: 5/m, ramp: 5}}": "limits.a.meters.r.adaptive.ramp: 5 must be a duration with a " +
			"unit, e.g. 30s",
		"{adaptive: {min: 1/m, max: 5/m, step: 5}}": "limits.a.meters.r.adaptive: there is no setting named step",
		"{adaptive: {min: many, max: 5/m}}": "limits.a.meters.r.adaptive.min: \"many\" must be a number, a slash " +
			"and a period: 500/s a second, 500/m a minute",
		"{rate: 5/m, capacity: }": "limits.a.meters.r.capacity: has no value: give it one, or remove it",
		"":                        "limits.a.meters.r: has no value: give it one, or remove it",
		"{adaptive: 5/m}":         "limits.a.meters.r.adaptive: 5/m must be a map with min, max and ramp",
		"{rate: 3/m, adaptive: {min: 1/m, max: 5/m}}": "limits.a.meters.r.rate: can't be given together with " +
			"adaptive, which begins at min and finds it",
		"{window: spread, adaptive: {min: 1/m, max: 5/m}}": "limits.a.meters.r.adaptive: a fixed window can't find its " +
			"rate, only a token bucket can",
	} {
		_, err := config.Parse([]byte("limits: {a: {meters: {r: " + text + "}}}"))
		if err == nil || want != "" && err.Error() != want {
			t.Errorf("%s:\n%v\nwant\n%s", text, err, want)
		}
	}
}

// A setting without a value is a fault: decoding takes it as left out, and a forgotten number would be no limit.
func TestSettingsWithoutAValue(t *testing.T) {
	t.Parallel()
	_, err := config.Parse([]byte(
		`limits: {a: {in_flight: , weights: {x: }, meters: {r: 5/m, s: {rate: 5/m, headroom: }}}}`))
	const want = "limits.a.in_flight: has no value: give it one, or remove it\n" +
		"limits.a.meters.s.headroom: has no value: give it one, or remove it\n" +
		"limits.a.weights.x: has no value: give it one, or remove it"
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant\n%s", err, want)
	}
}

// A capacity of zero is no burst at all; one that is left out is one period's worth.
func TestCapacityOfZero(t *testing.T) {
	t.Parallel()
	c, err := config.Parse([]byte("limits: {a: {meters: {r: {rate: 10/s, capacity: 0}, s: 10/s}}}"))
	if err != nil || c.Limits[0].Meters[0].Cap() != 0 || c.Limits[0].Meters[1].Cap() != 10 {
		t.Errorf("%+v (%v)", c.Limits, err)
	}
	for text, want := range map[string]string{
		"{a: {meters: {r: {rate: 1/s, capacity: 0, max_reserved: 0}}}}": "limits.a.meters.r.max_reserved: must not be zero " +
			"without a capacity",
		`{a: {meters: {r: {rate: 1/s, capacity: 0, window: spread}}}}`: "limits.a.meters.r.capacity: a fixed window can't " +
			"be without a burst",
		"{a: {meters: {r: {rate: 1/s, capacity: 0, headroom: 1}}}}": "limits.a.meters.r.headroom: 1 must",
		"{a: {shards: 2, meters: {r: {rate: 1/s, capacity: 0}}}}":   "limits.a.shards: capacity 0",
	} {
		if _, err := config.Parse([]byte("limits: " + text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// YAML's parser takes 1e6 for a text.
func TestNumbersWithAnExponent(t *testing.T) {
	t.Parallel()
	c, err := config.Parse([]byte("limits: {a: {weights: {acme: 1e2}, meters: {r: {rate: 5/s, capacity: 1e6, " +
		"max_reserved: 1e3, headroom: 1e1}}}}"))
	if err != nil {
		t.Fatal(err)
	}
	l := c.Limits[0]
	if m := l.Meters[0]; l.Weights["acme"] != 100 || m.Capacity != 1e6 || m.MaxReserved != 1e3 || m.Headroom != 10 {
		t.Errorf("limit is %+v", l)
	}
}

func TestWeights(t *testing.T) {
	t.Parallel()
	c, err := config.Parse([]byte("limits: {a: {weights: {acme: 3, user 7: 0.5}, priorities: {high: 9, low: 1}, meters: " +
		"{r: 5/s}}}"))
	if err != nil {
		t.Fatal(err)
	}
	if l := c.Limits[0]; l.Weights["acme"] != 3 || l.Weights["user 7"] != .5 || l.Priorities["high"] != 9 ||
		len(l.Priorities) != 2 {
		t.Errorf("limit is %+v", l)
	}
	_, err = config.Parse([]byte("limits: {a: {weights: {z: 0, m: 1000000, n: .nan}, priorities: {'': 1, low: -1}, " +
		"meters: {r: 5/s}}}"))
	for _, want := range []string{
		"limits.a.weights.z: weight 0 must be from 0.001 to 1000", "limits.a.weights.m: weight 1e+06 must",
		"limits.a.weights.n: weight NaN must",
		`limits.a.priorities: name "" must be`, "limits.a.priorities.low: weight -1 must",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\ndoes not say %q", err, want)
		}
	}
	if _, err = config.Parse([]byte("limits: {a: {weights: {t: many}, meters: {r: 5/s}}}")); err == nil ||
		!strings.Contains(err.Error(), "limits.a.weights.t: many must be a number") {
		t.Error(err)
	}
}

func TestInFlight(t *testing.T) {
	t.Parallel()
	c, err := config.Parse([]byte("limits: {a: {in_flight: 20}, b: {in_flight: 1, meters: {h: 1/s, t: 5/s}}}"))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]reservations.Meter{reservations.InFlight(20)}, c.Limits[0].Meters); d != "" {
		t.Errorf("limit a (-want +got):\n%s", d)
	}
	if m := c.Limits[1].Meters; len(m) != 3 || m[1] != reservations.InFlight(1) {
		t.Errorf("limit b: %+v", m)
	}
	for text, want := range map[string]string{
		"{in_flight: 0}":    "limits.a.in_flight: 0 must be a whole number of calls, from 1 to 1000",
		"{in_flight: -3}":   "limits.a.in_flight: -3 must be a whole number of calls",
		"{in_flight: 1001}": "limits.a.in_flight: 1001 must be",
		"{in_flight: 2.5}":  "limits.a.in_flight: 2.5 must be a whole number",
		"{in_flight: many}": "limits.a.in_flight: many must be a whole number",
		"{meters: {in_flight: 5/s}}": "limits.a.meters.in_flight: a bound of the calls in flight is no meter: " +
			"write `in_flight: 5` beside `meters`",
		"{meters: {in_flight: {capacity: 7}}}": "limits.a.meters.in_flight: a bound of the calls in flight is no meter: " +
			"write `in_flight: 7` beside `meters`",
		"{in_flight: 3, meters: {r: 5/x}}": "limits.a.meters.r.rate",
	} {
		if _, err := config.Parse([]byte("limits: {a: " + text + "}")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// A limit that can't be read is no missing one for the settings that name it.
func TestFaultsOfALimitAreNotRepeated(t *testing.T) {
	t.Parallel()
	const shape = " must be a number, a slash and a period: "
	for part, want := range map[string]string{
		"max_wait: x, meters: {r: 5/s}": `limits.a.max_wait: "x" must be a duration of ` +
			"days, hours, minutes and seconds, e.g. 90s, 1h30m or 1d",
		"meters: {r: bad}":           `limits.a.meters.r.rate: "bad"` + shape + "500/s a second, 500/m a minute",
		"meters: {r: 10rps}":         `limits.a.meters.r.rate: "10rps"` + shape + "10/s a second, 10/m a minute",
		"meters: {r: 10 rps}":        `limits.a.meters.r.rate: "10 rps"` + shape + "10/s a second, 10/m a minute",
		"meters: {r: {rate: 1_000}}": "limits.a.meters.r.rate: 1000" + shape + "1000/s a second, 1000/m a minute",
		"meters: {r: 300}": "limits.a.meters.r: 300 must be a rate (300/s a second, 300/m a minute) or a map with rate or " +
			"adaptive, capacity, max_reserved, window and settle",
	} {
		_, err := config.Parse([]byte("limits: {a: {" + part + `}}
providers: {p: {base_url: "https://host/v1", limits: [a]}}
estimates: {learn: [a]}
recurring:
  t:
    every: 1m
    task: {type: "llm:call", payload: {limit: a, request: {model: m, messages: [{role: user, content: hi}]}}}
`))
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", part, err, want)
		}
	}
}

func TestFaultsAreListedTogether(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"shape": {`
limits:
  openai:
    meters: {requests: {rate: 500}, tokens: {rate: 5/fortnight, capacity: many, max_reserved: some}}
    setle: adjust
  b: {meters: {r: 500, s: 5/s}}
  c: {meters: {r: -5/m}}
concurency: 5
concurrency: many
queues: {default: 0}
shutdown_timeout: 30
`, []string{
			"limits.b.meters.r: 500 must be a rate", "limits.c.meters.r.rate", "concurrency: many must be a whole number",
			"queues.default: weight 0",
			"limits.openai.meters.requests.rate: 500 must be", "limits.openai.meters.tokens.rate: \"5/fortnight\"",
			"limits.openai.meters.tokens.capacity",
			"limits.openai.meters.tokens.max_reserved: some must be", "limits.openai: there is no setting named setle",
			"there is no setting named concurency", "shutdown_timeout: 30 must be a duration",
		}},
		"values": {`
limits:
  "open ai": {meters: {}}
  a: {meters: {r: {rate: -1/s, max_reserved: -5}, q: {capacity: 5}}, settle: maybe}
queues: {default: 0}
concurrency: -1
shutdown_timeout: -1s
`, []string{
			"limits.open ai.name", "limits.open ai.meters", "limits.a.meters.r.rate", "limits.a.meters.r.max_reserved",
			"limits.a.meters.q.rate", "limits.a.meters.q.period", "limits.a.settle",
			"queues.default", "concurrency", "shutdown_timeout",
		}},
		"what a limit can't be": {`
max_refusals: -1
limits:
  a: {max_wait: -5s, shards: 1000, meters: {r: {rate: 5/0s}, s: {rate: 5/s, settle: perhaps}}}
  b: {shards: 8, meters: {r: 5/m}}
  c: {shards: 3, meters: {d: {rate: 10000/d, window: "00:00"}}}
  d:
    max_wait: 30
    shards: many
    meters:
      w: {rate: 5/d, window: "25:00"}
      v: {rate: 5/d, window: yes}
      u: {rate: 5/d, window: {start: "08:00"}}
  e: {meters: {w: {rate: 5/100us, window: "00:00"}}}
  f: {max_block: -1s, meters: {r: 5/m}}
  g: {max_block: 25h, meters: {r: 5/m}}
  h: {max_block: 600, meters: {r: 5/m}}
`, []string{
			"max_refusals: -1", "limits.a.max_wait: -5s", "limits.a.shards: 1000", "limits.a.meters.r.period: 0s",
			"limits.a.meters.s.settle: \"perhaps\"",
			"limits.b.shards: capacity 5 of r in 8 shards", "limits.c.shards: 3 must divide the rate 10000 of the window d",
			"limits.d.max_wait: 30 must be a duration", "limits.d.shards: many must be a whole number",
			"limits.d.meters.w.window: 25:00 must be when a window starts", "limits.d.meters.v.window",
			"limits.d.meters.u.window", "limits.e.meters.w.period",
			"limits.f.max_block: -1s must be from 0 to 24h", "limits.g.max_block: 25h0m0s must be from 0 to 24h",
			"limits.h.max_block: 600 must be a duration",
		}},
		"extremes": {"queues: {a: 1000000000, b: 1, \"q}{\": 1, \"x\\ny\": 1}\nconcurrency: 2000000000\nlimits: {a: " +
			"{in_flight: 1}}", []string{
			"queues.a: weight 1000000000 must be from 1 to 1000", "concurrency: 2000000000 must be from 1 to 100000",
			`queue: "q}{" must not begin`, `queue "x\ny" must hold no control characters`,
		}},
		"fractions": {"limits: {a: {shards: 2.5, meters: {r: 5/m}}}\nconcurrency: 1e3\nqueues: {default: " +
			"1.5}\nmax_refusals: .nan", []string{
			"limits.a.shards: 2.5 must be a whole number", "queues.default: 1.5 must be a whole number",
			"max_refusals: NaN must be a whole number",
		}},
		"yaml": {"limits: [", []string{"not valid YAML"}},
		"tab":  {"limits:\n\ta: 5/m\n", []string{"not valid YAML: line 2", "indent with spaces"}},
		"list": {"- a", []string{"not valid YAML"}},
		"two":  {"limits: {a: {meters: {b: 1/s}}}\n---\nlimits: {}\n", []string{"not valid YAML", "second document"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "headway.yaml")
			if err := os.WriteFile(file, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := config.Load(file)
			if e := (*config.Error)(nil); !errors.As(err, &e) || e.File != file {
				t.Fatalf("error %v does not name its file", err)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is missing in:\n%v", want, err)
				}
			}
		})
	}
}

// The fault of an unknown setting names the one that is probably meant, of the same map.
func TestHintOfAnUnknownSetting(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"limits: {a.b: {meters: {r: {rate: 1/m, capcity: 5}}}}":       `capcity; did you mean "capacity"?`,
		"limits: {a: {meters: {r: {adaptive: {min: 1/m, mx: 5/m}}}}}": `mx; did you mean "max"?`,
		"limits: {a: {setle: keep, meters: {r: 1/m}}}":                `setle; did you mean "settle"?`,
		"limit: {}": `limit; did you mean "limits"?`,
		"providers: {p: {base_ulr: http://h/v1}}":         `base_ulr; did you mean "base_url"?`,
		"recurring: {e: {every: 5m, task: {typ: x}}}":     `typ; did you mean "type"?`,
		"limits: {a: {concurrency: 5, meters: {r: 1/m}}}": "no setting named concurrency\n",
	} {
		if _, err := config.Parse([]byte(text)); err == nil || !strings.Contains(err.Error()+"\n", want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Settings beside an unknown one are checked too, and the order of the faults is always the same.
func TestFaultsBesideAnUnknownSetting(t *testing.T) {
	t.Parallel()
	const want = `concurrency: -1 must be from 1 to 100000
limits.a.meters.q.rate: -3 must be a positive number of tokens, from 1e-15 to 1e+15
limits.a.meters.r.capacity: -1 must be a number of tokens from 1e-15 to 1e+15; left out it is one period's worth
limits.a.meters.r.rate: 0 must be a positive number of tokens, from 1e-15 to 1e+15
limits.a.meters.r: there is no setting named burst
queues.a: weight 0 must be from 1 to 1000
queues.b: weight 0 must be from 1 to 1000`
	for range 20 {
		_, err := config.Parse([]byte("limits: {a: {meters: {r: {rate: 0/m, capacity: -1, burst: 5}, q: " +
			"-3/m}}}\nconcurrency: -1\nqueues: {b: 0, a: 0}"))
		if err == nil || err.Error() != want {
			t.Fatalf("%v", err)
		}
	}
}

func TestEverySetting(t *testing.T) {
	t.Parallel()
	c, err := config.Parse([]byte(`
max_refusals: 7
limits:
  hot:
    max_wait: 90s
    max_block: 1h
    shards: 4
    settle: keep
    meters:
      requests: {rate: 500/m, settle: adjust}
      day: {rate: 10000/d, window: "08:30"}
      hour: {rate: 1000/h, window: spread, capacity: 2000}
      week: {rate: 40000/168h, window: 2026-01-05T00:00:00Z}
`))
	if err != nil {
		t.Fatal(err)
	}
	monday := time.Duration(time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC).UnixNano())
	want := reservations.Limit{
		Name: "hot", Settle: reservations.SettleKeep, MaxWait: 90 * time.Second, MaxBlock: time.Hour, Shards: 4,
		Meters: []reservations.Meter{
			{
				Name: "day", Rate: 10000, Period: 24 * time.Hour,
				Kind: reservations.KindWindow, Start: 8*time.Hour + 30*time.Minute,
			},
			{
				Name: "hour", Rate: 1000, Period: time.Hour, Capacity: 2000,
				Kind: reservations.KindWindow, Spread: true,
			},
			{
				Name: "requests", Rate: 500, Period: time.Minute,
				Settle: reservations.SettleAdjust,
			},
			{
				Name: "week", Rate: 40000, Period: 168 * time.Hour,
				Kind: reservations.KindWindow, Start: monday,
			},
		},
	}
	if diff := cmp.Diff(want, c.Limits[0]); diff != "" || c.MaxRefusals != 7 {
		t.Errorf("max_refusals %d, %s", c.MaxRefusals, diff)
	}
}

func TestRateText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"500/m", "0.5/s", "10000/d", "3/h", "5/10s", "1000000/1h30m0s"} {
		tokens, period, err := config.ParseRate(text)
		if got := bucket.RateText(tokens, period); got != text || err != nil {
			t.Errorf("%q became %q, %v", text, got, err)
		}
	}
}

func TestFileOfWindows(t *testing.T) {
	t.Parallel()
	c, err := config.Parse([]byte("\xef\xbb\xbflimits:\r\n  a: {meters: {r: 5/m}}\r\n"))
	if err != nil || len(c.Limits) != 1 {
		t.Errorf("config %+v, error %v", c, err)
	}
}

func TestMissingFile(t *testing.T) {
	t.Parallel()
	_, err := config.Load(filepath.Join(t.TempDir(), "none.yaml"))
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "--config") {
		t.Errorf("error is %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("limits: {a: {meters: {r: 5/m}}}")
	f.Add("concurrency: x")
	f.Add("http: {allow_hosts: [a, \"b:1\"], secrets: {A: [a], B: [\"http://b:1\"]}}")
	for _, bomb := range bombs() {
		f.Add(bomb[:min(len(bomb), 2000)])
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := config.Parse([]byte(text))
		if err != nil {
			return
		}
		for _, l := range c.Limits {
			if err := l.Validate(); err != nil {
				t.Errorf("accepted an invalid limit: %v", err)
			}
		}
	})
}

// A worker without concurrency would run no task.
func TestConcurrencyOfZero(t *testing.T) {
	t.Parallel()
	const limits = "limits: {a: {meters: {r: 5/m}}}\n"
	if _, err := config.Parse([]byte(limits + "concurrency: 0")); err == nil ||
		!strings.Contains(err.Error(), "concurrency: 0 would run no task") {
		t.Error(err)
	}
	if c, err := config.Parse([]byte(limits)); err != nil || c.Concurrency != settings.Concurrency {
		t.Errorf("%+v, %v", c.Concurrency, err)
	}
}
