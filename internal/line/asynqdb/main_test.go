package asynqdb_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/internal/test/night"
	"github.com/headway-go/headway/internal/test/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const queue = "default"

// bundle is a DB and asynq itself on the same Redis.
type bundle struct {
	*asynqdb.DB

	t         *testing.T
	client    *redis.Client
	producer  *asynq.Client
	inspector *asynq.Inspector
}

// onBoth runs a test in a bubble, and on a real server, where the time that passes must not matter.
func onBoth(t *testing.T, test func(t *testing.T, b *bundle)) {
	t.Helper()
	inMemory(t, test)
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, onRedis(t))
	})
}

// inTime runs a test in a bubble, and in the night on a real server.
func inTime(t *testing.T, test func(t *testing.T, b *bundle)) {
	t.Helper()
	inMemory(t, test)
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		night.Only(t, "leases and pauses of asynq end while a machine stalls")
		test(t, onRedis(t))
	})
}

func inMemory(t *testing.T, test func(t *testing.T, b *bundle)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { test(t, setup(t, memredis.Serve(t).Client(t))) })
	})
}

func onRedis(t *testing.T) *bundle {
	t.Helper()
	return setup(t, connect(t))
}

// connect returns a client of a real Redis, which waits for each answer as long as that takes.
func connect(t *testing.T) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(testenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	options.ReadTimeout, options.WriteTimeout, options.DialTimeout = -1, -1, time.Hour
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func setup(t *testing.T, client *redis.Client) *bundle {
	t.Helper()
	return &bundle{
		DB: asynqdb.New(client), t: t, client: client,
		producer: asynq.NewClientFromRedisClient(client), inspector: asynq.NewInspectorFromRedisClient(client),
	}
}

// add enqueues tasks with these IDs.
func (b *bundle) add(in time.Duration, ids ...string) {
	b.t.Helper()
	for _, id := range ids {
		task := asynq.NewTaskWithHeaders("type of "+id, []byte("payload\x00 of "+id), map[string]string{"a": id, "b": ""})
		options := []asynq.Option{asynq.TaskID(id), asynq.ProcessIn(in), asynq.Retention(time.Hour)}
		if _, err := b.producer.EnqueueContext(b.t.Context(), task, options...); err != nil {
			b.t.Fatal(err)
		}
	}
}

// wake wakes tasks and returns the results.
func (b *bundle) wake(urgent int, ids ...string) []asynqdb.Wake {
	b.t.Helper()
	wakes, err := b.Wake(b.t.Context(), queue, ids, urgent)
	if err != nil {
		b.t.Fatal(err)
	}
	return wakes
}

// pending returns the IDs of asynq's pending tasks in the order of delivery.
func (b *bundle) pending() []string {
	b.t.Helper()
	infos, err := b.inspector.ListPendingTasks(queue, asynq.PageSize(1000))
	if err != nil {
		b.t.Fatal(err)
	}
	ids := make([]string, len(infos))
	for i, info := range infos {
		ids[i] = info.ID
	}
	return ids
}

// start starts an asynq server that retries a task after an hour.
func (b *bundle) start(handle asynq.HandlerFunc) {
	b.t.Helper()
	b.startWith(handle, asynq.Config{RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour }})
}

func (b *bundle) startWith(handle asynq.HandlerFunc, config asynq.Config) {
	b.t.Helper()
	config.Concurrency, config.LogLevel = 4, asynq.FatalLevel
	config.TaskCheckInterval, config.ShutdownTimeout = 10*time.Millisecond, time.Second
	if config.RetryDelayFunc == nil {
		config.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return 0 }
	}
	server := asynq.NewServerFromRedisClient(b.client, config)
	if err := server.Start(handle); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(server.Shutdown)
}

// eventually polls, because asynq sends no event when the state of a task changes in Redis.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond) //gate:ok polls until patience ends
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("never: %s", what)
		}
	}
}
