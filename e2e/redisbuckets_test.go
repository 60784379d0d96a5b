package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/llm"
)

// A fleet without MongoDB has its buckets in Redis. The limit is kept, even if a worker is killed (kill -9).
func TestBucketsInRedis(t *testing.T) {
	t.Parallel()
	const count = 300
	w := newWorld(t, requestsOnly)
	w.mongoURI, w.program = "", programPlain
	w.enqueueChats(t, count)
	w.start(t, fleet)
	w.awaitCompleted(t, count/2)
	_, onDuty := w.duty(t)
	w.workers[(onDuty+1)%fleet].kill()
	w.start(t, 1)
	killed := w.info(t)
	t.Logf("killed: %s", describe(killed))
	w.awaitCompleted(t, count-killed.Active)
	if f := w.figures(t, w.report(t)); f.tasks < count-killed.Active {
		t.Errorf("%d tasks started", f.tasks)
	}
	if log := w.workers[onDuty].log(t); !strings.Contains(log, `"store":"redis"`) {
		t.Error("a worker does not log where its buckets are")
	}
	for _, args := range [][]string{{"batch", "-", "--limit", "openai", "--config", w.config}, {"dead", "list"}} {
		command(t, "headway", w.env(w.redis.URL()), smallChats(1, 1), args...).want(t, 0) // records are there, too
	}
}

// enqueueChats sends chats without a batch.
func (w *world) enqueueChats(t *testing.T, n int) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: w.redis.Addr()})
	defer func() { _ = client.Close() }()
	limit := reservations.Limit{Name: "openai", Meters: []reservations.Meter{{
		Name: "requests", Rate: 50, Period: time.Second, Capacity: 5,
	}}}
	limiter, err := reservations.New(reservations.NoStore(), []reservations.Limit{limit}, reservations.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := scheduler.New(client, limiter, scheduler.Config{})
	if err != nil {
		t.Fatal(err)
	}
	chats := make([]tasks.Args, n)
	for i := range chats {
		request := fmt.Sprintf(`{"model":"gpt-4o-mini","max_tokens":20,"messages":[{"role":"user","content":"Count to `+
			`%d."}],`+
			`"metadata":{"headway_task":"t%05d"}}`, i, i)
		if chats[i], err = llm.NewCall(llm.EndpointChat, "openai", json.RawMessage(request), llm.MeterRequests); err != nil {
			t.Fatal(err)
		}
	}
	if _, err = s.EnqueueMany(t.Context(), chats, tasks.Options{Retention: time.Hour}); err != nil {
		t.Fatal(err)
	}
}
