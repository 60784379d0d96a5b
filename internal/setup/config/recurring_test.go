package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks/llm"
)

func TestRecurring(t *testing.T) {
	t.Parallel()
	c, err := config.Parse([]byte(`
limits: {openai: {meters: {requests: 500/m, tokens: 20000/m}}}
http: {allow_hosts: [api.example.com]}
recurring:
  nightly-report:
    cron: "0 3 * * *"
    zone: Europe/Berlin
    start_within: 1h
    queue: reports
    task:
      type: llm:call
      payload:
        limit: openai
        request: {model: gpt-4o-mini, max_tokens: 100, messages: [{role: user, content: "What was new?"}]}
  ping:
    every: 5m
    task: {type: "web:request", payload: {url: "https://api.example.com/ping"}}
`))
	if err != nil {
		t.Fatal(err)
	}
	got := c.Recurring
	if len(got) != 2 || got[0].Name != "nightly-report" || got[0].Spec != "0 3 * * *" || got[0].Zone != "Europe/Berlin" ||
		got[0].StartWithin != time.Hour || got[1].Spec != "@every 5m0s" {
		t.Fatalf("recurring is %+v", got)
	}
	for _, r := range got {
		if err := r.Validate(); err != nil {
			t.Error(err)
		}
	}
	chat, ok := got[0].Args.(llm.Call)
	if !ok || chat.Taken[0].Tokens["requests"] != 1 || chat.Taken[0].Tokens["tokens"] < 100 {
		t.Errorf("the task is %+v", got[0].Args)
	}
	if diff := cmp.Diff("web:request", got[1].Args.TaskType()); diff != "" {
		t.Error(diff)
	}
	if _, err := envelope.Encode(got[1].Args); err != nil {
		t.Error(err)
	}
	if _, err := scheduler.New(nil, nil, scheduler.Config{Recurring: got}); strings.Contains(err.Error(), "recurring") {
		t.Error(err)
	}
}

// The error lists each fault with its field, and the faults of other settings.
func TestRecurringFaults(t *testing.T) {
	t.Parallel()
	_, err := config.Parse([]byte(`
limits: {openai: {meters: {requests: 500/m}, priorities: {interactive: 9, batch: 1}}}
concurrency: -1
http: {allow_hosts: [a.example.com]}
recurring:
  a: {cron: "every day", zone: Mars, task: {type: "web:request", payload: {url: "https://a.example.com"}}}
  b: {every: -5m, task: {type: nonsense}}
  c: {cron: "@daily", every: 5m, zone: Mars, task: {type: "llm:call", payload: {limit: none, request: {model: m}}}}
  d: {cron: "@daily", zone: Mars, start_within: -1s, queue: " ", task: {type: "llm:call", payload: {limits: x}}}
  e: {cron: "@daily", at: 5, task: {type: "web:request", payload: {url: "ftp://a"}}}
  f: {}
  "g h": {cron: "0 0 31 2 *", task: {type: "web:request", payload: {url: "https://a.example.com"}}}
  i: {every: 5m, task: {type: "web:request", payload: {url: "https://b.example.com"}}}
  j: {every: 5m, task: {type: "llm:call", payload: {}}}
  k: {every: 5m, task: {type: "llm:call", payload: {limit: openai, priority: none, request: {messages: [{}]}}}}
`))
	if err == nil {
		t.Fatal("no fault")
	}
	for _, want := range []string{
		"concurrency", `recurring.a.cron: "every day"`, "recurring.a.zone: ", "recurring.b.every",
		`recurring.b.task: type "nonsense" must be`,
		"recurring.c.cron: give either", `there is no limit "none"`, `recurring.d.zone: "Mars"`, "recurring.d.start_within",
		"recurring.d.queue", `recurring.d.task: payload: json: unknown field "limits"`,
		"recurring.e: there is no setting named at",
		"recurring.e.task: payload", "recurring.f.cron: give either", "recurring.g h.name", "recurring.g h.cron: ",
		`recurring.i.task: payload: http request: url: host "b.example.com" must be listed`,
		"recurring.j.task: payload: chat request: ",
		`recurring.k.task: payload: reservations: invalid charge: priority "none"`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
}
