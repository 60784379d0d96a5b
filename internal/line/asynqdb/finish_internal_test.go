package asynqdb

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/headway-go/headway/internal/test/memredis"
)

// answer is an error reply of Redis.
type answer string

func (a answer) Error() string { return string(a) }
func (answer) RedisError()     {}

// messageOf returns asynq's message of a task that failed in this second.
func messageOf(second uint64, text string) string {
	m := protowire.AppendString(protowire.AppendTag(nil, 7, protowire.BytesType), text)
	return string(protowire.AppendVarint(protowire.AppendTag(m, messageFailedAt, protowire.VarintType), second))
}

// played is a Redis with prepared answers, followed by EOF.
type played struct {
	redis.UniversalClient

	scripts []error // for each try; nil means OK
	looks   []any   // for each look: a task's message or an error

	tried, looked int
}

func (p *played) EvalSha(context.Context, string, []string, ...any) *redis.Cmd {
	if p.tried++; p.tried <= len(p.scripts) {
		return redis.NewCmdResult("OK", p.scripts[p.tried-1])
	}
	return redis.NewCmdResult(nil, io.EOF)
}

func (p *played) HGet(context.Context, string, string) *redis.StringCmd {
	if p.looked++; p.looked <= len(p.looks) {
		found, _ := p.looks[p.looked-1].(string)
		err, _ := p.looks[p.looked-1].(error)
		return redis.NewStringResult(found, err)
	}
	return redis.NewStringResult("", io.EOF)
}

// A script that ends a delivery is repeated until it has run once, or the task's lease ends.
func TestFinishOutlastsAnOutage(t *testing.T) {
	t.Parallel()
	const lease = 30 * time.Second
	lost, refused, loading := io.EOF, answer("NOT FOUND"), answer("LOADING Redis is loading the dataset in memory")
	ours, before, later := messageOf(1000, "ours"), messageOf(990, "before"), messageOf(1001, "later")
	sentBack, done := []any{"id", []byte(ours)}, []any{"id", int64(1)}
	keys := []string{"asynq:{q}:active", "asynq:{q}:t:id"}
	for name, c := range map[string]struct {
		redis played
		keys  []string
		args  []any
		stops time.Duration // not used if zero
		tries int
		lasts time.Duration
		want  error
	}{
		"done at once": {redis: played{scripts: []error{nil}}, args: sentBack, tries: 1},
		"refused": {
			redis: played{scripts: []error{refused}},
			args:  sentBack, tries: 1, want: refused,
		},
		"closed": {
			redis: played{scripts: []error{redis.ErrClosed}},
			args:  sentBack, tries: 1, want: redis.ErrClosed,
		},
		"a short outage": {
			redis: played{scripts: []error{lost, nil}, looks: []any{before}},
			args:  sentBack, tries: 2, lasts: 100 * time.Millisecond,
		},
		"a longer one": {
			redis: played{scripts: []error{lost, nil}, looks: []any{lost, loading, lost, lost, before}},
			args:  sentBack, tries: 2, lasts: 2500 * time.Millisecond,
		},
		"two": {
			redis: played{scripts: []error{lost, lost, nil}, looks: []any{before, before}},
			args:  sentBack, tries: 3, lasts: 300 * time.Millisecond,
		},
		"a restart": {
			redis: played{scripts: []error{loading, nil}, looks: []any{before}},
			args:  sentBack, tries: 2, lasts: 100 * time.Millisecond,
		},
		"never sent back before": {
			redis: played{scripts: []error{lost, nil}, looks: []any{messageOf(0, "")}},
			args:  sentBack, tries: 2, lasts: 100 * time.Millisecond,
		},
		"not long before": {
			redis: played{scripts: []error{lost, nil}, looks: []any{messageOf(1000, "before")}},
			args:  sentBack, tries: 2, lasts: 100 * time.Millisecond,
		},
		"the answer was lost": {
			redis: played{scripts: []error{lost}, looks: []any{ours}},
			args:  sentBack, tries: 1, lasts: 100 * time.Millisecond,
		},
		"and the task went on": {
			redis: played{scripts: []error{lost}, looks: []any{later}},
			args:  sentBack, tries: 1, lasts: 100 * time.Millisecond,
		},
		"and it is gone": {
			redis: played{scripts: []error{lost}, looks: []any{redis.Nil}},
			args:  done, tries: 1, lasts: 100 * time.Millisecond,
		},
		"done, after a failure": {
			redis: played{scripts: []error{lost, nil}, looks: []any{before}},
			args:  done, tries: 2, lasts: 100 * time.Millisecond,
		},
		"refused when Redis is back": {
			redis: played{scripts: []error{lost, refused}, looks: []any{before}},
			args:  done, tries: 2, lasts: 100 * time.Millisecond, want: refused,
		},
		"the look is refused": {
			redis: played{scripts: []error{lost}, looks: []any{answer("NOPERM")}},
			args:  done, tries: 1, lasts: 100 * time.Millisecond, want: lost,
		},
		"until the lease is over": {args: sentBack, tries: 1, lasts: lease, want: lost},
		"until the stop": {
			args: sentBack, stops: 5 * time.Second, tries: 1, lasts: 5 * time.Second, want: lost,
		},
		"another script": {
			keys: []string{"asynq:{q}:t:another"},
			args: sentBack, tries: 1, want: lost,
		},
		"without arguments": {args: []any{"id"}, tries: 1, want: lost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.keys == nil {
				c.keys = keys
			}
			synctest.Test(t, func(t *testing.T) {
				stopping := make(chan struct{})
				if c.stops > 0 {
					time.AfterFunc(c.stops, func() { close(stopping) })
				}
				ctx, cancel := context.WithTimeout(t.Context(), lease)
				defer cancel()
				began := time.Now()
				got := ForServer(&c.redis, ServerConfig{Stopping: stopping}).EvalSha(ctx, "hash", c.keys, c.args...)
				if lasted := time.Since(began); c.redis.tried != c.tries || lasted != c.lasts || !errors.Is(got.Err(), c.want) {
					t.Errorf("%d tries in %v: %v, want %d in %v: %v", c.redis.tried, lasted, got.Err(), c.tries, c.lasts, c.want)
				}
				if got.Err() == nil && got.Val() != "OK" {
					t.Errorf("got %v", got.Val())
				}
			})
		})
	}
}

// recorded calls record with each call of the scripts that end deliveries.
type recorded struct {
	redis.UniversalClient

	calls chan script
}

// Eval is the method that asynq calls until Redis has cached its scripts.
func (c recorded) Eval(ctx context.Context, text string, keys []string, args ...any) *redis.Cmd {
	cmd := c.UniversalClient.Eval(ctx, text, keys, args...)
	if _, bounded := ctx.Deadline(); bounded {
		c.calls <- script{keys: keys, args: args}
	}
	return cmd
}

// This test compares keys, arguments and messages with the scripts of the asynq version in go.mod.
func TestAsynqsScriptsThatEndDeliveries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := memredis.Serve(t).Client(t)
		records := recorded{UniversalClient: client, calls: make(chan script, 10)}
		began := time.Now().Truncate(time.Second)
		running := asynq.NewServerFromRedisClient(records, asynq.Config{
			LogLevel: asynq.FatalLevel, TaskCheckInterval: 10 * time.Millisecond,
		})
		if err := running.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
			if n, _ := asynq.GetRetryCount(ctx); n == 0 {
				return errors.New("once")
			}
			return nil
		})); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(running.Shutdown)
		task := asynq.NewTask("type", []byte("payload"))
		info, err := asynq.NewClientFromRedisClient(client).EnqueueContext(t.Context(), task)
		if err != nil {
			t.Fatal(err)
		}
		s := &Server{UniversalClient: client}
		key := "asynq:{default}:t:" + info.ID

		back := <-records.calls
		writes, _ := back.args[1].([]byte)
		if at := time.Unix(int64(failedAt(writes)), 0); back.taskKey() != key || at.Before(began) || at.After(time.Now()) {
			t.Errorf("the key %q, sent back at %v", back.taskKey(), at)
		}
		if done, err := s.finished(t.Context(), key, back); err != nil || !done {
			t.Errorf("sent back: %v, %v", done, err)
		}
		if err := asynq.NewInspectorFromRedisClient(client).RunTask("default", info.ID); err != nil {
			t.Fatal(err)
		}
		end := <-records.calls
		if end.taskKey() != key {
			t.Errorf("the key %q of %v", end.taskKey(), end)
		}
		for _, call := range []script{back, end} {
			if done, err := s.finished(t.Context(), key, call); err != nil || !done {
				t.Errorf("gone: %v, %v", done, err)
			}
		}
	})
}
