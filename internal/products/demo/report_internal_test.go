package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/headway-go/headway/internal/products/provider"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// play ends the four tasks of a fleet in all possible ways: done, done twice, archived, never.
func play() *tally {
	t := newTally(4)
	e := t.event
	ref := func(id string) worker.TaskRef { return worker.TaskRef{ID: id} }
	e(worker.Event{Kind: worker.KindDeferred, Task: ref("a")})
	for i, id := range []string{"a", "b", "b", "c"} {
		e(worker.Event{Kind: worker.KindStarted, Task: ref(id), Waited: i == 0, Lateness: 30 * time.Millisecond})
	}
	e(worker.Event{Task: ref("a"), Kind: worker.KindSucceeded})
	e(worker.Event{Task: ref("b"), Kind: worker.KindFailed})
	e(worker.Event{Task: ref("b"), Kind: worker.KindSucceeded})
	e(worker.Event{Task: ref("b"), Kind: worker.KindSucceeded})
	e(worker.Event{Kind: worker.KindRejected, Task: ref("c")})
	return t
}

func TestReportCountsEachTaskOnce(t *testing.T) {
	t.Parallel()
	p := provider.Report{
		Violations: 2, Utilization: 0.98765,
		Meters: map[string]provider.MeterReport{"requests": {Utilization: 0.2}, "tokens": {Utilization: 0.98765}},
	}
	r := newReport(4, play(), p, reservations.Limit{}, 7*time.Millisecond)
	want := Report{
		Enqueued: 4, Succeeded: 2, Failed: 1, Lost: 1, Violations: 2, Stall: 7, Utilization: 0.9877, DeliveriesPerTask: 1.5,
		LatenessP50: 30, LatenessP99: 30, bottleneck: "tokens",
	}
	if r != want {
		t.Errorf("report is %+v, want %+v", r, want)
	}
	if err := r.Err(); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "exceeded 0 times, 1 lost, 1 failed") {
		t.Errorf("error is %v", err)
	}
	if err := (Report{Enqueued: 4, Succeeded: 4}).Err(); err != nil {
		t.Errorf("a promise that was kept is %v", err)
	}
	var text bytes.Buffer
	if err := r.Write(&text); err != nil || !strings.Contains(text.String(), "98.8 %") {
		t.Errorf("%v: %s", err, text.String())
	}
}

func TestReportsKeysAreThePublishedOnes(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(Report{})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"enqueued":0,"succeeded":0,"failed":0,"lost":0,"limit_exceeded":0,"violations":0,` +
		`"longest_stall_ms":0,"utilization":0,"deliveries_per_task":0,"lateness_p50_ms":0,"lateness_p99_ms":0}`
	if string(text) != want {
		t.Errorf("got %s", text)
	}
}

func TestTheLimitMakesTheDemoTakeItsTime(t *testing.T) {
	t.Parallel()
	all, err := requests()
	if err != nil || len(all) != 400 {
		t.Fatalf("%d requests: %v", len(all), err)
	}
	for _, keep := range []bool{false, true} {
		l := limitFor(all, keep)
		if err := l.Validate(); err != nil {
			t.Error(err)
		}
		for _, r := range all {
			for _, c := range r.(interface{ Charges() []reservations.Charge }).Charges() {
				if c.Tokens["tokens"] > l.Meters[1].Cap() {
					t.Errorf("%v tokens are above the capacity %v", c.Tokens["tokens"], l.Meters[1].Cap())
				}
			}
		}
	}
}
