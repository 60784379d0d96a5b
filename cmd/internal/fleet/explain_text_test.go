package fleet

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/internal/products/explained"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
)

// explainedExample is a task with everything that can be said of one.
func explainedExample() explained.Task {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	return explained.Task{ID: "x", Queue: "default", Summary: "Task x waits.", Explanation: scheduler.Explanation{
		Type: "summary", State: "retry", Reason: scheduler.ReasonProvider, Now: now, Since: now.Add(-3 * time.Second),
		Until: now.Add(12400 * time.Millisecond),
		Net:   now.Add(25 * time.Second), Failures: 1, MaxRetry: 5, Refusals: 2, Cause: "429 slow down",
		LastError: "boom\nat line 3",
		Waits: &scheduler.Waiting{
			Bucket: "openai", Position: 700, Of: 1234, TokensAhead: reservations.Tokens{
				"requests": 701,
				"tokens":   84000.4,
			},
			Urgent: true, Others: []string{"tenant:acme"},
		},
		Charges: []reservations.Charge{
			{Limit: "tenant", Key: "acme", Tokens: reservations.Tokens{
				"tokens":   1200.5,
				"requests": 1,
			}}, {Limit: "openai", Tokens: reservations.Tokens{"requests": 1}},
		},
	}, Problem: "away"}
}

func TestTaskIsShown(t *testing.T) {
	t.Parallel()
	const want = `Task x waits.

  task      x (summary) in queue default
  state     retry in asynq; position 700 of 1234 in the waitlist of openai
  since     2026-11-21T09:59:57.000Z, 3s ago
  until     2026-11-21T10:00:12.400Z, in 12.4s
  charges   tenant:acme: requests 1, tokens 1201
            openai: requests 1
  ahead     about requests 701, tokens 84000
  reserved  none of its tokens are promised: it starts in its turn all the same; urgent, so it may use the headroom
  also in   tenant:acme
  failures  1; at most 4 retries left
  refusals  2 in a row
  net       2026-11-21T10:00:25.000Z, in 25s: asynq delivers it then, should no dispatcher promote it
  cause     429 slow down
  error     boom
            at line 3
  bucket    away
`
	var plain bytes.Buffer
	printExplained(screen{Writer: &plain}, explainedExample())
	if d := cmp.Diff(want, plain.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestTaskIsShownInFewWords(t *testing.T) {
	t.Parallel()
	first := explainedExample()
	first.Waits = &scheduler.Waiting{Bucket: "openai", Position: 1, Of: 1, Reserved: true, AheadExact: true}
	promoted := explainedExample()
	promoted.Reason, promoted.Waits = scheduler.ReasonPromoted, &scheduler.Waiting{
		Bucket: "openai", Of: 7,
		AheadExact: true,
	}
	for want, task := range map[string]explained.Task{
		"  ahead     no task\n  reserved  its tokens are promised\n":     first,
		"  state     retry in asynq; promoted, 7 tasks wait behind it\n": promoted,
		"  record    `headway dead show x` has its payload and how it ended, ": {
			ID:          "x",
			Explanation: scheduler.Explanation{State: "archived"},
		},
	} {
		var plain bytes.Buffer
		printExplained(screen{Writer: &plain}, task)
		if !strings.Contains(plain.String(), want) {
			t.Errorf("%q is not in:\n%s", want, plain.String())
		}
	}
}
