package asynqdb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/test/memredis"
)

const list = "asynq:{default}:pending"

// waits returns after how long idle asks Redis, while during runs beside it. Zero means at once.
func (i *idle) waits(stopping <-chan struct{}, during func()) time.Duration {
	began, asked := time.Now(), make(chan time.Duration)
	go func() {
		for !i.wait(stopping) {
		}
		asked <- time.Since(began) //gate:ok called in a bubble
	}()
	during()
	return <-asked
}

func TestIdleServerWaits(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		queues []string
		before func(*idle)
		during func(*idle, chan struct{})
		want   time.Duration
	}{
		"until the net": {want: time.Minute},
		"until a message": {
			during: func(i *idle, _ chan struct{}) { pass(7 * time.Second); i.noticed(true) }, want: 7 * time.Second,
		},
		"until it stops": {
			during: func(_ *idle, c chan struct{}) { pass(7 * time.Second); close(c) }, want: 7 * time.Second,
		},
		"until Redis goes away": {
			during: func(i *idle, _ chan struct{}) { pass(7 * time.Second); i.noticed(false) }, want: 7 * time.Second,
		},
		"not without messages": {before: func(i *idle) {
			i.noticed(false)
			i.found(list, i.messageCount(), true, time.Minute)
		}},
		"not where it is not idle": {before: func(i *idle) { i.found(list, i.messageCount(), false, time.Minute) }},
		"not if a message came while Redis answered": {before: func(i *idle) {
			heard := i.messageCount()
			i.noticed(true)
			i.found(list, heard, true, time.Minute)
		}},
		"not if another queue was not asked": {queues: []string{"default", "other"}},
		"if all queues were empty": {
			queues: []string{"default", "other"},
			before: func(i *idle) { i.found("asynq:{other}:pending", i.messageCount(), true, time.Hour) }, want: time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if test.queues == nil {
					test.queues = []string{"default"}
				}
				i, stopping := newIdle(test.queues), make(chan struct{})
				i.noticed(true)
				i.found(list, i.messageCount(), true, time.Minute)
				if test.before != nil {
					test.before(i)
				}
				during := func() {}
				if test.during != nil {
					during = func() { test.during(i, stopping) }
				}
				if took := i.waits(stopping, during); took != test.want {
					t.Errorf("asks after %v, want %v", took, test.want)
				}
			})
		})
	}
}

// idleServer returns a server whose queue is empty, and that does not look again for an hour.
func idleServer(t *testing.T) (s *Server, client *redis.Client, queue string, next func() (string, error)) {
	t.Helper()
	client, queue = memredis.Serve(t).Client(t), "queue"
	s, next = idleIn(t, client, queue)
	return s, client, queue, next
}

// idleIn returns another such server of a queue, which is empty.
func idleIn(t *testing.T, client *redis.Client, queue string) (s *Server, next func() (string, error)) {
	t.Helper()
	s = ForServer(client, ServerConfig{Queues: []string{queue}, Net: time.Hour})
	t.Cleanup(s.Listen(t.Context()))
	k := keysOf(queue)
	next = func() (string, error) {
		return s.EvalSha(t.Context(), "asynq's", []string{k.pending(), k.paused(), k.active(), k.leases()},
			time.Now().Add(30*time.Second).Unix(), k.tasks()).Text()
	}
	for {
		if message, err := next(); !errors.Is(err, redis.Nil) {
			t.Fatalf("%q, %v from an empty queue", message, err)
		}
		s.idle.mu.Lock()
		known := len(s.idle.empty) > 0 && s.idle.listening
		s.idle.mu.Unlock()
		if known {
			return s, next
		}
		<-time.After(time.Millisecond)
	}
}

// One task wakes one of the idle servers. One that has ended is passed over, and one without a free slot passes the
// message on.
func TestOneServerIsWoken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, client, queue, _ := idleServer(t)
		var full atomic.Bool
		first.Free = func() int {
			if full.Load() {
				return 0
			}
			return 1
		}
		full.Store(true)
		second, _ := idleIn(t, client, queue)
		if err := client.SAdd(t.Context(), "asynq:{"+queue+"}:headway_idle", "ended").Err(); err != nil {
			t.Fatal(err)
		}
		before := second.idle.messageCount()
		add := asynq.NewClientFromRedisClient(ForClient(client))
		if _, err := add.Enqueue(asynq.NewTask("t", nil), asynq.Queue(queue)); err != nil {
			t.Fatal(err)
		}
		for second.idle.messageCount() == before {
			second.idle.mu.Lock()
			news := second.idle.news
			second.idle.mu.Unlock()
			if second.idle.messageCount() == before {
				<-news
			}
		}
	})
}

// Each push of ours ends the wait of an idle server, which would take an hour.
func TestPushesAreAnnounced(t *testing.T) {
	t.Parallel()
	enqueue := func(t *testing.T, client redis.UniversalClient, queue string, g *Guard, options ...asynq.Option) {
		t.Helper()
		task := asynq.NewTask("t", nil)
		options = append(options, asynq.TaskID("t"), asynq.Queue(queue))
		add := asynq.NewClientFromRedisClient(client)
		if _, err := add.EnqueueContext(WithGuard(t.Context(), g), task, options...); err != nil {
			t.Error(err)
		}
	}
	for name, push := range map[string]func(t *testing.T, client redis.UniversalClient, queue string){
		"enqueue": func(t *testing.T, client redis.UniversalClient, queue string) {
			t.Helper()
			enqueue(t, ForClient(client), queue, &Guard{})
		},
		"enqueue unique": func(t *testing.T, client redis.UniversalClient, queue string) {
			t.Helper()
			enqueue(t, ForClient(client), queue, &Guard{}, asynq.Unique(time.Minute))
		},
		"enqueue with a guard": func(t *testing.T, client redis.UniversalClient, queue string) {
			t.Helper()
			enqueue(t, ForClient(client), queue, &Guard{Queue: queue, ID: "t", Unique: "u"})
		},
		"wake": func(t *testing.T, client redis.UniversalClient, queue string) {
			t.Helper()
			enqueue(t, client, queue, &Guard{}, asynq.ProcessIn(time.Hour))
			if _, err := New(client).Wake(t.Context(), queue, []string{"t"}, 0); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				_, client, queue, next := idleServer(t)
				got := make(chan string)
				go func() {
					message, err := next()
					got <- fmt.Sprint(message != "", err)
				}()
				synctest.Wait()
				pushed := time.Now()
				push(t, client, queue)
				if is := <-got; is != "true <nil>" || !time.Now().Equal(pushed) {
					t.Errorf("%s after %v", is, time.Since(pushed))
				}
			})
		})
	}
}

// A delayed task that asynq's own forwarder makes pending ends the wait too, and a stopping server does not wait.
func TestForwardedTasksAreAnnounced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, client, queue, _ := idleServer(t)
		stopping, ran := make(chan struct{}), make(chan struct{})
		s.Stopping = stopping
		server := asynq.NewServerFromRedisClient(s, asynq.Config{
			Concurrency: 1, Queues: map[string]int{queue: 1}, LogLevel: asynq.FatalLevel, TaskCheckInterval: time.Millisecond,
			DelayedTaskCheckInterval: 10 * time.Millisecond,
		})
		handler := func(context.Context, *asynq.Task) error { close(ran); return nil }
		if err := server.Start(asynq.HandlerFunc(handler)); err != nil {
			t.Fatal(err)
		}
		add := asynq.NewClientFromRedisClient(client)
		if _, err := add.Enqueue(asynq.NewTask("t", nil), asynq.TaskID("t"), asynq.Queue(queue),
			asynq.ProcessIn(time.Hour)); err != nil {
			t.Fatal(err)
		}
		due := redis.Z{Score: 1, Member: "t"}
		if err := client.ZAdd(t.Context(), keysOf(queue).scheduled(), due).Err(); err != nil {
			t.Fatal(err)
		}
		<-ran
		close(stopping)
		server.Shutdown()
	})
}

// The shape of asynq's scripts: a new version that calls them otherwise is found here.
func TestScriptsOfAsynq(t *testing.T) {
	t.Parallel()
	if !pushes([]string{"asynq:{q}:t:1", list}) || pushes([]string{"asynq:{q}:t:1", "asynq:{q}:scheduled"}) {
		t.Error("pushes")
	}
	call := script{keys: []string{"asynq:{q}:active", "asynq:{q}:lease", list, "asynq:{q}:t:1"}, args: []any{"1"}}
	if !call.isRequeue() || call.isDequeue() || call.isForward() || !slices.Contains(call.keys, list) {
		t.Error("requeue")
	}
}

func pass(d time.Duration) { <-time.After(d) } //gate:ok called in a bubble
