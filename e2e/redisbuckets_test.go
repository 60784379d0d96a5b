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
	log := w.workers[onDuty].log(t)
	for _, want := range []string{`"store":"redis"`, "MONGODB_URI is not set"} {
		if !strings.Contains(log, want) {
			t.Errorf("a worker does not log %s", want)
		}
	}
	for _, args := range [][]string{{"batch", "-", "--limit", "openai"}, {"dead", "list"}} {
		if args[0] == "batch" {
			args = append(args, "--config", w.config)
		}
		c := command(t, "headway", w.env(w.redis.URL()), smallChats(1, 1), args...)
		if c.code != 2 || !strings.Contains(c.err, "MONGODB_URI is not set") {
			t.Errorf("%v without MongoDB: exit %d: %s", args, c.code, c.err)
		}
	}
}

// enqueueChats sends chats without a batch.
func (w *world) enqueueChats(t *testing.T, n int) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: w.redis.Addr()})
	defer func() { _ = client.Close() }()
	limit := reservations.Limit{Name: "openai", Meters: []reservations.Meter{{
		Name: "requests", Rate: 50, Period: time.Second, Capacity: 5, MaxReserved: reservations.Unlimited,
	}}}
	limiter, err := reservations.New(nil, []reservations.Limit{limit}, reservations.Config{})
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
