package worker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// A worker whose clock is ahead of Redis's leaves scheduled tasks to other machines, and logs a warning.
func TestClocksThatDiffer(t *testing.T) {
	t.Parallel()
	queues := map[string]int{"default": 1, "bulk": 2}
	server := func(host, status string, of map[string]int) *asynq.ServerInfo {
		return &asynq.ServerInfo{Host: host, Status: status, Queues: of}
	}
	others := []*asynq.ServerInfo{
		server("b", "active", map[string]int{"default": 1}), server("c", "active", map[string]int{"bulk": 1}),
	}
	for name, tc := range map[string]struct {
		ahead   time.Duration
		servers []*asynq.ServerInfo
		want    time.Duration
		said    string // empty for no log
	}{
		"alike":                 {time.Second, others, time.Second, ""},
		"a little behind":       {-2 * time.Second, others, time.Second, ""},
		"behind":                {-90 * time.Second, others, time.Second, "synchronize it\" ahead=-1m30s"},
		"a little ahead":        {4 * time.Second, others, time.Second, "synchronize it\" ahead=4s"},
		"ahead":                 {6 * time.Second, others, forwardNever, "left to the workers of other machines\" ahead=6s"},
		"ahead, alone":          {90 * time.Second, nil, time.Second, "come early\" ahead=1m30s"},
		"ahead, on one machine": {time.Hour, []*asynq.ServerInfo{server("a", "active", queues)}, time.Second, "come early"},
		"ahead, one queue":      {time.Hour, others[:1], time.Second, "come early"},
		"ahead, others stop":    {time.Hour, []*asynq.ServerInfo{server("b", "stopped", queues)}, time.Second, "come early"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var text bytes.Buffer
			c := clocks{
				ahead:   func(context.Context) (time.Duration, error) { return tc.ahead, nil },
				servers: func() ([]*asynq.ServerInfo, error) { return tc.servers, nil },
				host:    "a", log: slog.New(slog.NewTextHandler(&text, nil)),
			}
			if got := c.forwardEvery(t.Context(), queues, time.Second); got != tc.want {
				t.Errorf("forwards every %v, want %v", got, tc.want)
			}
			if got := text.String(); !strings.Contains(got, tc.said) || tc.said == "" && got != "" || tc.said != "" &&
				!strings.Contains(got, "level=WARN") {
				t.Errorf("log is %q, want %q", got, tc.said)
			}
		})
	}
}

// clockOnly is a Redis that answers TIME, and nothing else.
type clockOnly struct {
	behind time.Duration
	err    error // the answer to TIME, if not nil
}

var errOnly = errors.New("it is a clock")

// client returns a client whose commands reach the clock and no network.
func (c *clockOnly) client(t *testing.T) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{})
	client.AddHook(c)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func (*clockOnly) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *clockOnly) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		err := c.err
		if clock, ok := cmd.(*redis.TimeCmd); ok {
			clock.SetVal(time.Now().Add(-c.behind))
		} else {
			err = errOnly
		}
		cmd.SetErr(err)
		return err
	}
}

func (*clockOnly) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(context.Context, []redis.Cmder) error { return errOnly }
}

func TestClockOfARedisThatIsAway(t *testing.T) {
	t.Parallel()
	for name, there := range map[string]*clockOnly{
		"away": {err: io.EOF}, "without knowing of other workers": {behind: time.Hour},
	} {
		c := newClocks(there.client(t), slog.New(slog.DiscardHandler))
		if got := c.forwardEvery(t.Context(), map[string]int{"default": 1}, time.Minute); got != time.Minute {
			t.Errorf("%s: forwards every %v", name, got)
		}
	}
}

// The server of an adopted program has the same interval, or its own if the clocks agree.
func TestClockOfAnAdoptedServer(t *testing.T) {
	t.Parallel()
	there := &clockOnly{}
	var text bytes.Buffer
	limits, err := Adopt(there.client(t), nil, Config{Logger: slog.New(slog.NewTextHandler(&text, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if got := limits.config(asynq.Config{}).DelayedTaskCheckInterval; got != delayedTaskCheckInterval ||
		text.String() != "" {
		t.Errorf("forwards every %v: %s", got, text.String())
	}
	there.behind = time.Hour
	if limits.config(asynq.Config{}); !strings.Contains(text.String(), "this machine's clock differs from Redis's") {
		t.Errorf("log is %q", text.String())
	}
}
