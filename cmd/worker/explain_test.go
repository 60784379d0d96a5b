package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/internal/config"
	"github.com/headway-go/headway/internal/connect"
	"github.com/headway-go/headway/internal/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
)

// job is a task that takes a minute's worth of the limit "api".
type job struct{ Key string }

func (job) TaskType() string { return "job" }

func (j job) Charges() []reservations.Charge {
	return []reservations.Charge{{Limit: "api", Key: j.Key, Tokens: reservations.Tokens{"requests": 60}}}
}

// waitingWorld is a queue and buckets in which three tasks wait for the limit "api", one of them for the key "acme".
func waitingWorld(t *testing.T) (env map[string]string, file string) {
	t.Helper()
	uri, database := testenv.Mongo(t)
	host, query, _ := strings.Cut(strings.TrimPrefix(uri, "mongodb://"), "/")
	_, query, _ = strings.Cut(query, "?")
	env = map[string]string{"REDIS_URL": "redis://" + miniredis.RunT(t).Addr(), "MONGODB_URI": "mongodb://" + host + "/" + database + "?" + query}
	file = filepath.Join(t.TempDir(), "headway.yaml")
	if err := os.WriteFile(file, []byte("limits: {api: {meters: {requests: 60/m}}, idle: {meters: {tokens: 5/s}}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	settings, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	s, err := openSight(t.Context(), settings, cli.Environment{Getenv: func(k string) string { return env[k] }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for _, task := range []struct{ id, key string }{{"first", ""}, {"a", ""}, {"b", ""}, {"first-acme", "acme"}, {"c", "acme"}} {
		if _, err := s.scheduler.Enqueue(t.Context(), job{Key: task.key}, scheduler.ID(task.id), scheduler.Reserved()); err != nil {
			t.Fatal(err)
		}
	}
	return env, file
}

func TestExplainCommand(t *testing.T) {
	t.Parallel()
	env, file := waitingWorld(t)
	code, out, errs := command(t, env, "explain", "b", "--config", file)
	if code != cli.ExitOK || errs != "" {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	for _, want := range []string{
		`^Task b waits for limit api: its turn comes in (2m0|1m5\S+)s, as number 3 of 3; no worker takes from queue default\.\n\n`, `charges   api: requests 60\n`,
		`\napi  3 tasks wait, the first is due now, the last in (2m0|1m5\S+)s; the backlog is done in (2m0|1m5\S+)s\n`, `  METER     RATE  LEVEL     LATE  PLAN`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
	env["MONGODB_URI"] = "mongodb://127.0.0.1:1/"
	if code, out, errs = command(t, env, "explain", "b", "--config", file); code != cli.ExitOK || !strings.Contains(out, "waits for limit api") || !strings.Contains(out, "MONGODB_URI") {
		t.Errorf("without MongoDB: exit %d: %s%s", code, out, errs)
	}
}

func TestExplainAsJSON(t *testing.T) {
	t.Parallel()
	env, file := waitingWorld(t)
	code, out, errs := command(t, env, "explain", "b", "--queue", "default", "--config", file, "--json")
	var told []map[string]any
	if err := json.Unmarshal([]byte(out), &told); err != nil || code != cli.ExitOK || len(told) != 1 {
		t.Fatalf("exit %d, %v: %s%s", code, err, out, errs)
	}
	if d := cmp.Diff([]string{
		"before", "bucket", "charges", "failures", "id", "max_retry", "net", "now", "queue", "reason", "since", "state", "summary", "type", "until", "waits", "workers",
	}, keysOf(told[0])); d != "" {
		t.Errorf("keys (-want +got):\n%s", d)
	}
	waits, _ := told[0]["waits"].(map[string]any)
	if d := cmp.Diff([]string{"bucket", "generation", "of", "rank", "state", "tokens"}, keysOf(waits)); d != "" {
		t.Errorf("keys of waits (-want +got):\n%s", d)
	}
	bucket, _ := told[0]["bucket"].(map[string]any)
	if told[0]["reason"] != "plan" || waits["rank"] != 3. || bucket["waiting"] != 3. {
		t.Errorf("%s", out)
	}
}

func TestExplainOfAPausedQueue(t *testing.T) {
	t.Parallel()
	env, file := waitingWorld(t)
	client, err := connect.Redis(t.Context(), func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	if err = asynq.NewInspectorFromRedisClient(client).PauseQueue("default"); err != nil {
		t.Fatal(err)
	}
	code, out, errs := command(t, env, "explain", "b", "--config", file)
	if code != cli.ExitOK {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	for _, want := range []string{
		"; queue default is paused, so its turn comes at \\S+Z at the earliest: resume it with `asynq queue unpause default`; no worker takes from queue default\\.\n",
		`\n  until     \S+Z, in \S+s, at the earliest\n`, "\n  paused    nothing of queue default starts until it is resumed: `asynq queue unpause default`\n",
		`\n  net       \S+Z, in \S+s: asynq puts it into its queue then, should no worker wake it\n`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
	var told []map[string]any
	if _, out, _ = command(t, env, "explain", "b", "--config", file, "--json"); json.Unmarshal([]byte(out), &told) != nil || len(told) != 1 {
		t.Fatalf("as JSON: %s", out)
	}
	if told[0]["paused"] != true || told[0]["resume"] != "asynq queue unpause default" || told[0]["reason"] != "plan" {
		t.Errorf("as JSON: %s", out)
	}
}

// What a provider wrote does nothing to the terminal, neither here nor among the dead. A failure that ended its task counts, which asynq leaves out.
func TestShownErrorsAreHarmless(t *testing.T) {
	t.Parallel()
	env, store, _ := deadWorld(t)
	o, err := redis.ParseURL(env["REDIS_URL"])
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(o)
	t.Cleanup(func() { _ = client.Close() })
	ended := make(chan struct{})
	server := asynq.NewServerFromRedisClient(client, asynq.Config{LogLevel: asynq.FatalLevel, TaskCheckInterval: 20 * time.Millisecond})
	if err := server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		defer close(ended)
		return fmt.Errorf("\x1b[31mhopeless: %w", asynq.SkipRetry)
	})); err != nil {
		t.Fatal(err)
	}
	if _, err := asynq.NewClientFromRedisClient(client).Enqueue(asynq.NewTask("mail", nil), asynq.TaskID("evil")); err != nil {
		t.Fatal(err)
	}
	<-ended
	server.Shutdown()
	record := deadMail("evil", 1)
	record.Last.Error, record.Payload = "\x1b[31mhopeless", []byte("\x1b]0;title\a")
	buried(t, store, record)
	for _, args := range [][]string{{"explain", "evil"}, {"dead", "show", "evil"}, {"dead", "list"}} {
		code, out, errs := command(t, env, args...)
		if code != cli.ExitOK || strings.ContainsAny(out, "\x1b\a") || !strings.Contains(out, `\x1b[31mhopeless`) {
			t.Errorf("%v: exit %d: %q%s", args, code, out, errs)
		}
		if args[0] == "explain" && !strings.Contains(out, "  failures  1\n") {
			t.Errorf("failures: %s", out)
		}
	}
	if _, out, _ := command(t, env, "explain", "evil", "--json"); !strings.Contains(out, `"failures":1,`) {
		t.Errorf("as JSON: %s", out)
	}
}

func TestExplainWhatIsNotThere(t *testing.T) {
	t.Parallel()
	env, file := waitingWorld(t)
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"a batch":  {[]string{"3f2a"}, cli.ExitFailed, "batches are shown by `enqueue status`"},
		"a queue":  {[]string{"b", "--queue", "nosuch"}, cli.ExitFailed, `there is no queue "nosuch"; there are ["default"]`},
		"an empty": {[]string{" "}, cli.ExitUsage, "the ID of the task is empty"},
	} {
		if code, out, errs := command(t, env, append([]string{"explain", "--config", file}, tc.args...)...); code != tc.code || out != "" || !strings.Contains(errs, tc.want) {
			t.Errorf("%s: exit %d: %s%s", name, code, out, errs)
		}
	}
}

func keysOf(m map[string]any) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func TestLimitsShow(t *testing.T) {
	t.Parallel()
	env, file := waitingWorld(t)
	code, out, errs := command(t, env, "limits", "show", "--config", file, "--json")
	var all shownLimits
	if err := json.Unmarshal([]byte(out), &all); err != nil || code != cli.ExitOK || len(all.Limits) != 2 {
		t.Fatalf("exit %d, %v: %s%s", code, err, out, errs)
	}
	api := all.Limits[0].Buckets
	if len(api) != 2 || api[0].Bucket != "api" || api[0].Waiting != 3 || api[1].Bucket != "api:acme" || api[1].Waiting != 2 || api[1].Key != "acme" || !api[1].InUse {
		t.Errorf("buckets of api: %+v", api)
	}
	if done := api[0].DoneIn; done < 100 || done > 120.05 {
		t.Errorf("the backlog is done in %v s, want 2m, and the 50 ms that the first was on its way", done)
	}
	if idle := all.Limits[1].Buckets; len(idle) != 1 || idle[0].InUse || idle[0].Waiting != 0 || idle[0].Meters[0].Level != 5 {
		t.Errorf("buckets of idle: %+v", idle)
	}
	var keys map[string]any
	if err := json.Unmarshal([]byte(out), &keys); err != nil {
		t.Fatal(err)
	}
	first := keys["limits"].([]any)[0].(map[string]any)["buckets"].([]any)[0].(map[string]any) //nolint:forcetypeassert // a panic fails the test as well
	if d := cmp.Diff([]string{
		"blocked_seconds", "bucket", "done_in_seconds", "first_in_seconds", "in_use", "key", "last_in_seconds", "limit", "meters", "now", "shift_seconds", "speed", "version", "waiting",
	}, keysOf(first)); d != "" {
		t.Errorf("keys of a bucket (-want +got):\n%s", d)
	}
	meter := first["meters"].([]any)[0].(map[string]any) //nolint:forcetypeassert // as above
	if d := cmp.Diff([]string{
		"capacity", "debt", "gap", "kind", "late", "level", "line", "line_seconds", "max_reserved", "meter", "period_seconds", "plan", "plan_seconds", "rate",
	}, keysOf(meter)); d != "" {
		t.Errorf("keys of a meter (-want +got):\n%s", d)
	}
	code, out, errs = command(t, env, "limits", "show", "api:acme", "--config", file)
	if code != cli.ExitOK || !regexp.MustCompile(`^api:acme  2 tasks wait, the first is due now, the last in (1m0|5\S+)s; `).MatchString(out) {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

func TestExplainAndShowExitCodes(t *testing.T) {
	t.Parallel()
	queue := "redis://" + miniredis.RunT(t).Addr()
	for name, tc := range map[string]struct {
		env  map[string]string
		args []string
		code int
		want string
	}{
		"no such task":           {map[string]string{"REDIS_URL": queue}, []string{"explain", "nobody"}, cli.ExitFailed, "there is no nobody"},
		"a task that is no more": {map[string]string{"REDIS_URL": queue}, []string{"explain", "nobody"}, cli.ExitFailed, "`worker dead show nobody`"},
		"no such queue":          {map[string]string{"REDIS_URL": queue}, []string{"explain", "a", "--queue", "none"}, cli.ExitFailed, `"none"`},
		"no task named":          {nil, []string{"explain"}, cli.ExitUsage, "explain --help"},
		"no redis":               {map[string]string{"REDIS_URL": "redis://127.0.0.1:1"}, []string{"explain", "a"}, cli.ExitUnavailable, "REDIS_URL"},
		"no such file":           {map[string]string{"REDIS_URL": queue}, []string{"explain", "a", "--config", "none.yaml"}, cli.ExitUsage, "none.yaml"},
		"show without redis":     {map[string]string{"REDIS_URL": "redis://127.0.0.1:1"}, []string{"limits", "show", "--config", "../../headway.yaml"}, cli.ExitUnavailable, "REDIS_URL"},
		"show without mongo":     {map[string]string{"REDIS_URL": queue, "MONGODB_URI": "mongodb://127.0.0.1:1/"}, []string{"limits", "show", "--config", "../../headway.yaml"}, cli.ExitUnavailable, "MONGODB_URI"},
		"show without settings":  {nil, []string{"limits", "show"}, cli.ExitUsage, "headway.yaml"},
		"show two":               {nil, []string{"limits", "show", "a", "b"}, cli.ExitUsage, "show --help"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errs := command(t, tc.env, tc.args...)
			if code != tc.code || !strings.Contains(errs, tc.want) || out != "" {
				t.Errorf("exit %d: %s%s", code, out, errs)
			}
		})
	}
	env, file := waitingWorld(t)
	if code, _, errs := command(t, env, "limits", "show", "nope", "--config", file); code != cli.ExitUsage || !strings.Contains(errs, `"nope" is not configured`) {
		t.Errorf("an unknown limit: exit %d: %s", code, errs)
	}
}

// shownExample is a bucket with everything that can be said of one.
func shownExample() shownBucket {
	first, last := 0.25, 33.1
	b := newShownBucket(reservations.View{
		Limit: "openai", Key: "acme", Found: true, Waiting: true, DoneIn: 34 * time.Second, Blocked: 4200 * time.Millisecond, Speed: 0.5,
		Meters: []reservations.MeterView{
			{Meter: reservations.PerMinute("requests", 500), Level: 312.4},
			{
				Meter: reservations.Meter{Name: "tokens", Rate: 200000, Period: 30 * time.Second, Capacity: 20000}, Level: -1200, Debt: 1200, Late: 12.345,
				Plan: 36000, PlanIn: 10800 * time.Millisecond, Line: 8, LineIn: 34 * time.Second,
			},
			{Meter: reservations.PerDay("daily", 1e6), Level: 5e5},
		},
	})
	b.Waiting, b.FirstIn, b.LastIn, b.Override = 37, &first, &last, "requests 500/m since yesterday"
	return b
}

func TestBucketIsShown(t *testing.T) {
	t.Parallel()
	const want = `openai:acme  37 tasks wait, the first is due in 250ms, the last in 33.1s; the backlog is done in 34s
  METER     RATE              LEVEL              LATE   PLAN           LINE
  requests  500/m             312 of 500         -      -              -
  tokens    200000/30s        -1200 of 20000     12.35  10.8s (36000)  34s (8)
  daily     1000000/d window  500000 of 1000000  -      -              -
  blocked for 4.2s: a provider refused a call
  override: requests 500/m since yesterday
  the limit was changed while tasks wait: their clock runs at 0.5 times its speed
`
	var plain, pretty bytes.Buffer
	shownExample().print(screen{Writer: &plain})
	if d := cmp.Diff(want, plain.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	shownExample().print(screen{Writer: &pretty, bars: true, bold: true})
	for _, part := range []string{"\x1b[1mopenai:acme\x1b[0m", "██████████░░░░░░ 312 of 500", "░░░░░░░░░░░░░░░░ -1200 of 20000", "████████░░░░░░░░ 500000 of"} {
		if !strings.Contains(pretty.String(), part) {
			t.Errorf("%q is missing in:\n%s", part, pretty.String())
		}
	}
}

// A meter that is not scarce is not taken for one that is exhausted.
func TestGapsAreShown(t *testing.T) {
	t.Parallel()
	requests := reservations.Meter{Name: "requests", Rate: 2, Period: time.Second, Capacity: 2, MaxReserved: 20}
	at := time.Date(2026, time.March, 3, 12, 0, 0, 0, time.UTC)
	for burst, want := range map[float64]string{
		20000: `openai  no task stands in line; the backlog is done in 29s
  METER     RATE      LEVEL           LATE  PLAN            LINE
  requests  2/s       0 of 2          -     9.5s (19)       29s (39)
  tokens    200000/m  19000 of 20000  -     ~3.65s (12167)  ~23.2s (65000)
  ~ tokens is not scarce: nobody asked for 53667 of that, which only keep the places of tasks that wait for requests
`,
		// All find their tokens there.
		200000: `openai  no task stands in line; the backlog is done in 29s
  METER     RATE      LEVEL             LATE  PLAN       LINE
  requests  2/s       0 of 2            -     9.5s (19)  29s (39)
  tokens    200000/m  199000 of 200000  -     -          ~65000
  ~ tokens is not scarce: that only keeps the places of tasks that wait for requests
`,
	} {
		tokens := reservations.Meter{Name: "tokens", Rate: 200000, Period: time.Minute, Capacity: burst, MaxReserved: reservations.Unlimited}
		limit := reservations.Limit{Name: "openai", Meters: []reservations.Meter{requests, tokens}}
		var b reservations.Bucket
		for range 60 {
			b, _ = reservations.Step(b, limit, at, reservations.Request{Op: reservations.OpBegin, Tokens: []float64{1, 500}})
		}
		var plain bytes.Buffer
		newShownBucket(b.View(limit, "", at)).print(screen{Writer: &plain})
		if d := cmp.Diff(want, plain.String()); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	}
}

// A limit that was set and unset leaves a speed that is 1 but for some digits, and that is no news.
func TestASpeedOfOneIsNotShown(t *testing.T) {
	t.Parallel()
	for speed, want := range map[float64]string{0: "", 1: "", 0.9997833604132816: "", 1.0021: "", 0.5: " at 0.5 times", 1.25: " at 1.25 times", 0.000123: " at 0.00012 times"} {
		b := shownExample()
		b.Speed = speed
		var plain bytes.Buffer
		b.print(screen{Writer: &plain})
		if got := plain.String(); strings.Contains(got, "times its speed") != (want != "") || !strings.Contains(got, want) {
			t.Errorf("at %v, want %q:\n%s", speed, want, got)
		}
	}
}

// The same through the commands: headway.yaml counts again, and no clock is told of.
func TestLimitsShowAfterUnset(t *testing.T) {
	t.Parallel()
	env, file := waitingWorld(t)
	settings, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	fleet, err := openSight(t.Context(), settings, cli.Environment{Getenv: func(k string) string { return env[k] }})
	if err != nil {
		t.Fatal(err)
	}
	defer fleet.close()
	backlog := slices.Repeat([]tasks.Args{job{}}, 60) // an hour of it: what passes between the calls below is nothing beside that
	if _, err = fleet.scheduler.EnqueueMany(t.Context(), backlog, scheduler.Reserved()); err != nil {
		t.Fatal(err)
	}
	follow := func(set ...reservations.Override) string { // as a worker does within 2 s
		before := fleet.limiter.Limits()
		if err := fleet.limiter.SetOverrides(set); err != nil {
			t.Fatal(err)
		}
		if done, err := fleet.scheduler.Revise(t.Context(), before, fleet.limiter.Limits()); err != nil || !done {
			t.Fatal(done, err)
		}
		_, shown, _ := command(t, env, "limits", "show", "api:", "--config", file)
		_, explained, _ := command(t, env, "explain", "b", "--config", file)
		return shown + explained
	}
	if out := follow(reservations.Override{Limit: "api", Meter: "requests", Rate: 30, Period: time.Minute}); strings.Count(out, "runs at 0.5 times its speed") != 2 {
		t.Errorf("at half the rate:\n%s", out)
	}
	if out := follow(); strings.Contains(out, "times its speed") || !strings.Contains(out, "63 tasks wait") {
		t.Errorf("as it was:\n%s", out)
	}
}

func TestWhoWaitsIsToldInWords(t *testing.T) {
	t.Parallel()
	one := 0.
	for want, b := range map[string]shownBucket{
		"not in use, so it is full": {},
		"nobody waits":              {InUse: true},
		"1 task waits, due now; the backlog is done in 1s":     {InUse: true, Waiting: 1, FirstIn: &one, LastIn: &one, DoneIn: 1},
		"no task stands in line; the backlog is done in 1m30s": {InUse: true, waiting: true, DoneIn: 90},
		"2 tasks wait, the first is due now, the last now":     {InUse: true, Waiting: 2, FirstIn: &one, LastIn: &one},
	} {
		if got := b.waits(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestTaskIsShown(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	told := toldTask{ID: "x", Queue: "default", Summary: "Task x waits.", Explanation: scheduler.Explanation{
		Type: "summary", State: "retry", Reason: scheduler.ReasonUpstream, Now: now, Since: now.Add(-3 * time.Second), Until: now.Add(12400 * time.Millisecond),
		Net: now.Add(25 * time.Second), Failures: 1, MaxRetry: 5, Refusals: 2, Cause: "429 slow down", LastError: "boom\nat line 3",
		Waits: &scheduler.Waiting{Bucket: "openai", State: reservations.StateLate, Others: []scheduler.OtherPlace{
			{Limit: "tenant", Key: "acme", Place: reservations.Place{State: reservations.StateReserved}},
		}},
		Charges: []reservations.Charge{
			{Limit: "tenant", Key: "acme", Tokens: reservations.Tokens{"tokens": 1200.5, "requests": 1}}, {Limit: "openai", Tokens: reservations.Tokens{"requests": 1}},
		},
	}, Problem: "away"}
	const want = `Task x waits.

  task      x (summary) in queue default
  state     retry in asynq; late: comes first when the provider's time is over
  since     2026-11-21T09:59:57.000Z, 3s ago
  until     2026-11-21T10:00:12.400Z, in 12.4s
  charges   tenant:acme: requests 1, tokens 1201
            openai: requests 1
  also      reserved in tenant:acme
  failures  1; it is tried again 4 times at most
  refusals  2 in a row
  net       2026-11-21T10:00:25.000Z, in 25s: asynq delivers it then, should no worker wake it
  cause     429 slow down
  error     boom
            at line 3
  bucket    away
`
	var plain bytes.Buffer
	told.print(screen{Writer: &plain})
	if d := cmp.Diff(want, plain.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	plain.Reset()
	toldTask{ID: "x", Explanation: scheduler.Explanation{State: "archived"}}.print(screen{Writer: &plain})
	if !strings.Contains(plain.String(), "worker dead show x") {
		t.Errorf("an archived task: %s", plain.String())
	}
}
