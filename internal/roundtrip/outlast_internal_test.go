package roundtrip

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/encoding/protowire"
)

// answer is what Redis says where it refuses a command.
type answer string

func (a answer) Error() string { return string(a) }
func (answer) RedisError()     {}

// message is one of asynq's, of a task that was sent back in this second.
func message(second uint64, text string) string {
	m := protowire.AppendString(protowire.AppendTag(nil, 7, protowire.BytesType), text)
	return string(protowire.AppendVarint(protowire.AppendTag(m, messageFailedAt, protowire.VarintType), second))
}

// played is a Redis that says what it is told to, and EOF from then on.
type played struct {
	redis.UniversalClient

	scripts []error // of each try; nil is OK
	looks   []any   // a task's message or an error, of each look

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

// What ends a delivery is tried until it is done, once, or the task's lease is over.
func TestEndsOutlastAnOutage(t *testing.T) {
	t.Parallel()
	const lease = 30 * time.Second
	lost, refused, loading := io.EOF, answer("NOT FOUND"), answer("LOADING Redis is loading the dataset in memory")
	ours, before, later := message(1000, "ours"), message(990, "before"), message(1001, "later")
	sentBack, done := []any{"id", []byte(ours)}, []any{"id", int64(1)}
	keys := []string{"asynq:{q}:active", "asynq:{q}:t:id"}
	for name, c := range map[string]struct {
		redis played
		keys  []string
		args  []any
		stops time.Duration // where not zero
		tries int
		lasts time.Duration
		want  error
	}{
		"done at once":               {redis: played{scripts: []error{nil}}, args: sentBack, tries: 1},
		"refused":                    {redis: played{scripts: []error{refused}}, args: sentBack, tries: 1, want: refused},
		"closed":                     {redis: played{scripts: []error{redis.ErrClosed}}, args: sentBack, tries: 1, want: redis.ErrClosed},
		"a short outage":             {redis: played{scripts: []error{lost, nil}, looks: []any{before}}, args: sentBack, tries: 2, lasts: 100 * time.Millisecond},
		"a longer one":               {redis: played{scripts: []error{lost, nil}, looks: []any{lost, loading, lost, lost, before}}, args: sentBack, tries: 2, lasts: 2500 * time.Millisecond},
		"two":                        {redis: played{scripts: []error{lost, lost, nil}, looks: []any{before, before}}, args: sentBack, tries: 3, lasts: 300 * time.Millisecond},
		"a restart":                  {redis: played{scripts: []error{loading, nil}, looks: []any{before}}, args: sentBack, tries: 2, lasts: 100 * time.Millisecond},
		"never sent back before":     {redis: played{scripts: []error{lost, nil}, looks: []any{message(0, "")}}, args: sentBack, tries: 2, lasts: 100 * time.Millisecond},
		"not long before":            {redis: played{scripts: []error{lost, nil}, looks: []any{message(1000, "before")}}, args: sentBack, tries: 2, lasts: 100 * time.Millisecond},
		"the answer was lost":        {redis: played{scripts: []error{lost}, looks: []any{ours}}, args: sentBack, tries: 1, lasts: 100 * time.Millisecond},
		"and the task went on":       {redis: played{scripts: []error{lost}, looks: []any{later}}, args: sentBack, tries: 1, lasts: 100 * time.Millisecond},
		"and it is gone":             {redis: played{scripts: []error{lost}, looks: []any{redis.Nil}}, args: done, tries: 1, lasts: 100 * time.Millisecond},
		"done, after a failure":      {redis: played{scripts: []error{lost, nil}, looks: []any{before}}, args: done, tries: 2, lasts: 100 * time.Millisecond},
		"refused when Redis is back": {redis: played{scripts: []error{lost, refused}, looks: []any{before}}, args: done, tries: 2, lasts: 100 * time.Millisecond, want: refused},
		"nobody may look":            {redis: played{scripts: []error{lost}, looks: []any{answer("NOPERM")}}, args: done, tries: 1, lasts: 100 * time.Millisecond, want: lost},
		"until the lease is over":    {args: sentBack, tries: 1, lasts: lease, want: lost},
		"until the stop":             {args: sentBack, stops: 5 * time.Second, tries: 1, lasts: 5 * time.Second, want: lost},
		"another script":             {keys: []string{"asynq:{q}:t:another"}, args: sentBack, tries: 1, want: lost},
		"without arguments":          {args: []any{"id"}, tries: 1, want: lost},
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
				got := ShareEnds(&c.redis, 1, stopping).EvalSha(ctx, "hash", c.keys, c.args...)
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

// taught keeps the scripts that end deliveries, as asynq calls them.
type taught struct {
	redis.UniversalClient

	calls chan script
}

func (c taught) Eval(ctx context.Context, text string, keys []string, args ...any) *redis.Cmd { // the server knows none of them yet
	cmd := c.UniversalClient.Eval(ctx, text, keys, args...)
	if _, bounded := ctx.Deadline(); bounded {
		c.calls <- script{keys: keys, args: args}
	}
	return cmd
}

// Keys, arguments and messages are asynq's own: here is what is taken for granted, as the version in go.mod has it.
func TestWhatAsynqSaysOfATaskThatEnds(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { _ = client.Close() })
	keeps := taught{UniversalClient: client, calls: make(chan script, 10)}
	began := time.Now().Truncate(time.Second)
	server := asynq.NewServerFromRedisClient(keeps, asynq.Config{
		LogLevel: asynq.FatalLevel, TaskCheckInterval: 10 * time.Millisecond,
	})
	if err := server.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		if n, _ := asynq.GetRetryCount(ctx); n == 0 {
			return errors.New("once")
		}
		return nil
	})); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	info, err := asynq.NewClientFromRedisClient(client).EnqueueContext(t.Context(), asynq.NewTask("type", []byte("payload")))
	if err != nil {
		t.Fatal(err)
	}
	s := &shared{UniversalClient: client}
	key := "asynq:{default}:t:" + info.ID

	back := <-keeps.calls
	writes, _ := back.args[1].([]byte)
	if at := time.Unix(int64(failedAt(writes)), 0); back.taskKey() != key || at.Before(began) || at.After(time.Now()) {
		t.Errorf("the key %q, sent back at %v", back.taskKey(), at)
	}
	if done, err := s.done(t.Context(), key, back); err != nil || !done {
		t.Errorf("sent back: %v, %v", done, err)
	}
	if err := asynq.NewInspectorFromRedisClient(client).RunTask("default", info.ID); err != nil {
		t.Fatal(err)
	}
	end := <-keeps.calls
	if end.taskKey() != key {
		t.Errorf("the key %q of %v", end.taskKey(), end)
	}
	for _, call := range []script{back, end} {
		if done, err := s.done(t.Context(), key, call); err != nil || !done {
			t.Errorf("gone: %v, %v", done, err)
		}
	}
}
