package scheduler

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/reservations"
)

func TestRetryDelayTable(t *testing.T) {
	t.Parallel()
	failure := errors.New("boom")
	for _, c := range []struct {
		name   string
		n      int
		err    error
		random float64
		want   time.Duration
	}{
		{"first failure, least", 0, failure, 0, time.Second},
		{"first failure, middle", 0, failure, 0.5, 2 * time.Second},
		{"second failure", 1, failure, 0.5, 4 * time.Second},
		{"sixth failure", 5, failure, 0.5, 64 * time.Second},
		{"many failures", 11, failure, 0.5, time.Hour},
		{"more failures than bits", 100000, failure, 0, 30 * time.Minute},
		{"a crash", 0, asynq.ErrLeaseExpired, 0.5, 2 * time.Second},
		{"deferral", 3, &DeferredError{Delay: time.Second}, 0.9, 11100 * time.Millisecond},
		{"long deferral, wrapped", 0, fmt.Errorf("run: %w", &DeferredError{Delay: time.Hour}), 0, time.Hour + 10*time.Second + 6*time.Minute},
		{"deferral that nobody watches", 0, &DeferredError{Delay: time.Second, unwatched: true}, 0, 2 * time.Second},
	} {
		if got := retryDelay(c.n, c.err, c.random); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if d := RetryDelay(0, failure, nil); d < time.Second || d > 3*time.Second {
		t.Errorf("RetryDelay = %v, want 1s to 3s", d)
	}
}

func TestJitterTable(t *testing.T) {
	t.Parallel()
	config, none := Config{}.withDefaults(), Config{JitterReserved: -1, JitterRefused: -1}.withDefaults()
	for _, c := range []struct {
		state  reservations.State
		random float64
		want   time.Duration
	}{
		{reservations.StateReserved, 0, 0},
		{reservations.StateReserved, 0.5, 2500 * time.Microsecond},
		{reservations.StateLate, 1, 5 * time.Millisecond},
		{reservations.StateTicket, 0, 0},
		{reservations.StateTicket, 0.5, 50 * time.Millisecond},
		{reservations.StateAgain, 1, 100 * time.Millisecond},
	} {
		if got := config.jitter(c.state, c.random); got != c.want {
			t.Errorf("%s, %v: %v, want %v", c.state, c.random, got, c.want)
		}
		if got := none.jitter(c.state, c.random); got != 0 {
			t.Errorf("%s without jitter: %v", c.state, got)
		}
	}
}

func TestOutageDelayGrows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lasted time.Duration
		random float64
		want   time.Duration
	}{
		{0, 0, time.Second},
		{0, 0.5, 1500 * time.Millisecond},
		{4 * time.Second, 0, 4 * time.Second},
		{4 * time.Second, 0.5, 6 * time.Second},
		{time.Hour, 0, 10 * time.Second},
		{time.Hour, 0.5, 15 * time.Second},
	} {
		if got := outageDelay(c.lasted, c.random); got != c.want {
			t.Errorf("%v, %v: %v, want %v", c.lasted, c.random, got, c.want)
		}
	}
	var o outage
	start := time.Now()
	for _, c := range []struct {
		after, want time.Duration
	}{{0, 0}, {3 * time.Second, 3 * time.Second}, {30 * time.Second, 30 * time.Second}, {61 * time.Second, 0}, {62 * time.Second, time.Second}} {
		if got := o.lasted(start.Add(c.after)); got != c.want {
			t.Errorf("after %v: lasted %v, want %v", c.after, got, c.want)
		}
	}
	o.over()
	if got := o.lasted(start.Add(63 * time.Second)); got != 0 {
		t.Errorf("after an answer: lasted %v, want 0", got)
	}
}

func TestDeferredErrorTellsAPerson(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 11, 21, 10, 1, 50, 700e6, time.UTC)
	e := &DeferredError{Bucket: "openai:acme", State: reservations.StateReserved, Delay: 12423 * time.Millisecond}
	e.Until = from.Add(e.Delay)
	same(t, "text", "waiting for limit openai:acme (reserved): until 2026-11-21T10:02:03.123Z, 12.4s from 2026-11-21T10:01:50.700Z", e.Error())
	e.Delay, e.Cause = 1234567*time.Microsecond, fmt.Errorf("bucket openai: %w", reservations.ErrUnavailable)
	e.Until = from.Add(e.Delay)
	same(t, "text of an outage", "waiting for limit openai:acme (reserved), which could not be asked: until 2026-11-21T10:01:51.934Z, "+
		"1.235s from 2026-11-21T10:01:50.700Z: bucket openai: reservations: store unavailable", e.Error())
}

// asynq can't store a text that is not UTF-8, and a key may be anything.
func TestDeferredErrorIsUTF8(t *testing.T) {
	t.Parallel()
	e := &DeferredError{Bucket: "openai:a\xffb", Cause: errors.New("\xfe")}
	if text := e.Error(); !utf8.ValidString(text) || !strings.Contains(text, "openai:a\uFFFDb") {
		t.Errorf("text %q", text)
	}
}

func TestDeferralsAreNoFailures(t *testing.T) {
	t.Parallel()
	deferred := &DeferredError{Cause: errors.Join(reservations.ErrUnavailable, asynq.SkipRetry, asynq.RevokeTask)}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{deferred, false},
		{fmt.Errorf("middleware: %w", deferred), false},
		{errors.New("boom"), true},
		{asynq.ErrLeaseExpired, true},
	} {
		if got := IsFailure(c.err); got != c.want {
			t.Errorf("IsFailure(%v) = %v", c.err, got)
		}
	}
	if !errors.Is(deferred, ErrDeferred) || !errors.Is(deferred, reservations.ErrUnavailable) {
		t.Error("a deferral matches ErrDeferred and its cause")
	}
	if errors.Is(deferred, asynq.SkipRetry) || errors.Is(deferred, asynq.RevokeTask) {
		t.Error("a deferral must never be archived or dropped")
	}
}

func TestTaskNames(t *testing.T) {
	t.Parallel()
	for _, task := range []Task{{"default", "a"}, {"a/b", "c/d"}, {"%2F", "%"}, {" ", ""}, {"ü", "x y"}} {
		got, err := parseTask(task.String())
		if err != nil || got != task {
			t.Errorf("parse %q = %v, %v, want %v", task.String(), got, err, task)
		}
	}
	for _, s := range []string{"", "default", "%zz/a"} {
		if got, err := parseTask(s); err == nil {
			t.Errorf("parse %q = %v, want an error", s, got)
		}
	}
}

func TestWholeSecondFrom(t *testing.T) {
	t.Parallel()
	at := time.Unix(1000, 0)
	for _, c := range []struct{ t, want time.Time }{{at, at}, {at.Add(1), at.Add(time.Second)}, {at.Add(time.Second - 1), at.Add(time.Second)}} {
		if got := wholeSecondFrom(c.t); !got.Equal(c.want) {
			t.Errorf("%v: %v, want %v", c.t, got, c.want)
		}
	}
}
