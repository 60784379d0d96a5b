package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/state"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations"
)

func TestLimitsShow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env, file := waitingWorld(t)
		testenv.Serve(t, openWorld(t, env, file).Queue, "default")
		code, out, errs := command(t, env, "limits", "show", "--config", file, "--json")
		var all state.Limits
		if err := json.Unmarshal([]byte(out), &all); err != nil || code != cli.ExitOK || len(all.Limits) != 2 {
			t.Fatalf("exit %d, %v: %s%s", code, err, out, errs)
		}
		api := all.Limits[0].Buckets
		if len(api) != 2 || api[0].Bucket != "api" || api[0].Waiting != 3 || api[1].Bucket != "api:acme" ||
			api[1].Waiting != 2 ||
			api[1].Key != "acme" || !api[1].InUse {
			t.Fatalf("buckets of api: %+v", api)
		}
		if end := api[0].EndIn; end == nil || *end < 100 || *end > 120 {
			t.Errorf("the last of three tasks of a minute each is expected in %v s, the first one now", end)
		}
		if m := api[0].Meters[0]; m.Promised < 160 || m.Promised > 180 || m.Waiting != 180 || m.Ahead < 100 ||
			m.Ahead > 120 || m.AheadIn > 120 || m.MaxReserved != nil {
			t.Errorf("meter of api: %+v", m)
		}
		if idle := all.Limits[1].Buckets; len(idle) != 1 || idle[0].InUse || idle[0].Waiting != 0 || idle[0].EndIn != nil ||
			idle[0].Meters[0].Level != 5 {
			t.Errorf("buckets of idle: %+v", idle)
		}
		var keys map[string]any
		if err := json.Unmarshal([]byte(out), &keys); err != nil {
			t.Fatal(err)
		}
		//nolint:forcetypeassert // a panic fails the test as well
		first := keys["limits"].([]any)[0].(map[string]any)["buckets"].([]any)[0].(map[string]any)
		if d := cmp.Diff([]string{
			"blocked_seconds", "bucket", "done_in_seconds", "end_in_seconds", "in_use", "key", "limit", "meters", "now",
			"promoted", "waiting",
		}, keysOf(first)); d != "" {
			t.Errorf("keys of a bucket (-want +got):\n%s", d)
		}
		meter := first["meters"].([]any)[0].(map[string]any) //nolint:forcetypeassert // as above
		if d := cmp.Diff([]string{
			"ahead", "ahead_seconds", "capacity", "debt", "kind", "level", "max_reserved", "meter", "period_seconds",
			"promised", "rate", "waiting",
		}, keysOf(meter)); d != "" {
			t.Errorf("keys of a meter (-want +got):\n%s", d)
		}
		code, out, errs = command(t, env, "limits", "show", "api:acme", "--config", file)
		line := regexp.MustCompile(`^api:acme  2 tasks wait, the last is expected to start in (1m0|5\S+)s\n`)
		if code != cli.ExitOK || !line.MatchString(out) {
			t.Errorf("exit %d: %s%s", code, out, errs)
		}
	})
}

// shownExample is a bucket with everything that can be said of one.
func shownExample() state.Bucket {
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	b := state.NewBucket(reservations.View{
		Limit: "openai", Key: "acme", Found: true, Now: at, DoneIn: 34 * time.Second, Blocked: 4200 * time.Millisecond,
		Meters: []reservations.MeterView{
			{Meter: reservations.PerMinute("requests", 500), Current: 500, Level: 312.4, Promised: 12},
			{
				Meter: reservations.Meter{
					Name: "tokens", Rate: 200000, Period: 30 * time.Second, Capacity: 20000,
					MaxReserved: 72000,
				},
				Current: 200000, Level: -1200, Debt: 1200, Promised: 34800, Ahead: 36000, AheadIn: 10800 * time.Millisecond,
			},
			{Meter: reservations.PerDay("daily", 1e6), Current: 1e6, Level: 5e5},
			{Meter: reservations.InFlight(20), Level: 3},
		},
	}).With(dispatcher.Waitlist{List: waitlist.List{
		Bucket: "openai:acme", Waiting: 37, Promoted: 2,
		Tokens: reservations.Tokens{"requests": 39, "tokens": 51234.567, "in_flight": 39},
		Now:    at, FailedUntil: at.Add(3 * time.Second),
	}, End: at.Add(33100 * time.Millisecond)})
	b.Override = "requests 500/m since yesterday"
	return b
}

func TestBucketIsShown(t *testing.T) {
	t.Parallel()
	const want = `openai:acme  37 tasks wait, 2 more promoted, the last is expected to start in 33.1s
  METER      RATE              LEVEL               PROMISED  AHEAD                          WAITING
  requests   500/m             312 of 500          12        -                              39
  tokens     200000/30s        -1200 of 20000      34800     36000 of 72000, back in 10.8s  51235
  daily      1000000/d window  500000 of 1000000   -         -                              -
  in_flight  -                 in flight 17 of 20  -         -                              39
  The bucket of limit openai:acme could not be asked: 37 tasks wait, it is asked again in 3s.
  Check the store of the buckets.
  override: requests 500/m since yesterday
`
	var plain, pretty bytes.Buffer
	printBucket(screen{Writer: &plain}, shownExample())
	if d := cmp.Diff(want, plain.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	plain.Reset()
	stopped := shownExample()
	stopped.FailedIn, stopped.Refusing, stopped.RefusingFor = 0, "key", 3600
	printBucket(screen{Writer: &plain}, stopped)
	const part = "\n  Limit openai:acme has stopped, because the provider does not accept the key: 37 tasks wait, for " +
		"1h0m0s now, it is asked again in 4.2s.\n  Set the key, and restart the workers; " +
		"`headway limits unblock openai:acme` asks at once.\n"
	if !strings.Contains(plain.String(), part) {
		t.Errorf("%q is missing in:\n%s", part, plain.String())
	}
	printBucket(screen{Writer: &pretty, bars: true, bold: true}, shownExample())
	for _, part := range []string{
		"\x1b[1mopenai:acme\x1b[0m", "██████████░░░░░░ 312 of 500", "░░░░░░░░░░░░░░░░ -1200 of 20000",
		"████████░░░░░░░░ 500000 of", "██░░░░░░░░░░░░░░ in flight 17 of 20",
	} {
		if !strings.Contains(pretty.String(), part) {
			t.Errorf("%q is missing in:\n%s", part, pretty.String())
		}
	}
	for columns, want := range map[int]string{
		120: "METER RATE LEVEL PROMISED AHEAD WAITING", 90: "METER RATE LEVEL PROMISED AHEAD WAITING",
		80: "METER RATE LEVEL PROMISED WAITING",
	} {
		var narrow bytes.Buffer
		printBucket(screen{Writer: &narrow, bars: true, columns: columns}, shownExample())
		_, table, _ := strings.Cut(narrow.String(), "\n")
		table, _, _ = strings.Cut(table, "  The bucket")
		if got := columnsOf(t, strings.Split(strings.TrimSpace(table), "\n"), columns); got != want {
			t.Errorf("%d columns: %s", columns, narrow.String())
		}
	}
}

// An adaptive meter is shown at its present rate, a pure queue without a bar.
func TestRatesThatAreFoundAreShown(t *testing.T) {
	t.Parallel()
	found, queue := reservations.PerMinute("found", 10), reservations.PerSecond("queue", 2)
	found.Adaptive.Max, queue.Capacity = 500, reservations.None
	b := state.NewBucket(reservations.View{Limit: "api", Found: true, Meters: []reservations.MeterView{
		{Meter: found, Current: 123.456, Level: 4}, {Meter: queue, Current: 2},
	}})
	if m := b.Meters[0]; m.Rate != 123.456 || *m.Least != 10 || *m.Most != 500 || b.Meters[1].Most != nil {
		t.Errorf("meters %+v", b.Meters)
	}
	const want = `api  no task waits
  METER  RATE               LEVEL                     PROMISED  AHEAD  WAITING
  found  123/m (10 to 500)  ██████░░░░░░░░░░ 4 of 10  -         -      -
  queue  2/s                ░░░░░░░░░░░░░░░░ 0 of 0   -         -      -
`
	var out bytes.Buffer
	printBucket(screen{Writer: &out, bars: true}, b)
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestShardsAreShown(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	meter := reservations.PerSecond("requests", 5)
	v := reservations.View{
		Limit: "api", Found: true,
		Meters: []reservations.MeterView{{Meter: reservations.PerSecond("requests", 10), Current: 10}},
	}
	for i := 1; i <= 2; i++ {
		v.Shards = append(v.Shards, reservations.View{
			Limit: "api", Shard: i, Found: true,
			Meters: []reservations.MeterView{{Meter: meter, Current: meter.Rate}},
		})
	}
	b := state.NewBucket(v)
	for i, end := range []time.Duration{4 * time.Second, 2 * time.Second} {
		b = b.With(dispatcher.Waitlist{End: at.Add(end), List: waitlist.List{
			Bucket: fmt.Sprintf("api#%d", v.Shards[i].Shard), Waiting: 10 * (i + 1), Now: at,
			Tokens: reservations.Tokens{"requests": 7},
		}})
	}
	var plain bytes.Buffer
	printBucket(screen{Writer: &plain}, b)
	const want = `api  30 tasks wait, the last is expected to start in 4s
  METER     RATE  LEVEL    PROMISED  AHEAD  WAITING
  requests  10/s  0 of 10  -         -      14
  2 shards share this evenly
`
	if d := cmp.Diff(want, plain.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestWaitlistInWords(t *testing.T) {
	t.Parallel()
	now, minute := 0., 60.
	empty := reservations.View{Meters: []reservations.MeterView{{Meter: reservations.PerMinute("requests", 500)}}}
	for want, b := range map[string]state.Bucket{
		"not in use, so it is full":                           {},
		"not in use, and fills up":                            state.NewBucket(empty),
		"no task waits":                                       {InUse: true},
		"1 task waits, expected to start now":                 {InUse: true, Waiting: 1, EndIn: &now},
		"2 tasks wait, the last is expected to start in 1m0s": {InUse: true, Waiting: 2, EndIn: &minute},
		"2 tasks wait":                                        {Waiting: 2},
		"1 task is promoted, none waits":                      {InUse: true, Promoted: 1},
		"1 task waits, 3 more promoted, expected to start in 1m0s": {
			InUse: true, Waiting: 1, Promoted: 3,
			EndIn: &minute,
		},
	} {
		if got := waitsText(b); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
