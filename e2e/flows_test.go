package e2e_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/llm"
)

// Ten tenants share a limit of 60 requests a second, six for each. Nine of them send 2.4 a second.
const (
	tenantsQuiet = 9
	quietEvery   = time.Second * 10 / 24 / tenantsQuiet
	quietWithin  = time.Second // 99 % of their tasks start within that
)

// One of ten tenants floods the queue while the others send tasks. Tasks of the others start within a second.
//
//nolint:paralleltest // measures a limit: it has the machine for itself
func TestOneOfTenTenantsFloods(t *testing.T) {
	measures(t, 60*time.Second)
	flood, quiet := sized(400, 1500), sized(150, 500)
	w := newWorld(t, setting{
		limit:    "{meters: {requests: {rate: 60/s, capacity: 6}}, weights: {tenant0: 1}}",
		provider: []string{"-requests-rate=60", "-requests-capacity=6", "-max-latency=200ms"},
	})
	w.start(t, fleet)
	w.awaitWorkers(t)
	enqueued := make(map[string]time.Time, quiet)
	var sending sync.WaitGroup
	sending.Go(func() { w.sendQuietly(t, quiet, enqueued) })
	pass(t, time.Second)
	w.enqueue(t, smallChats(1, flood), "--flow", "flood")
	sending.Wait()
	if i := w.info(t); !testing.Short() && i.Retry+i.Scheduled < 100 {
		t.Errorf("the flood has ended before the others: %s", describe(i))
	}
	w.awaitCompleted(t, flood+quiet)
	f := w.finish(t)
	f.wantOnce(t, flood+quiet)
	var waits []time.Duration
	worst := map[int]time.Duration{} // by the second in which the task was enqueued
	for i, id := range f.Order {
		if at, ok := enqueued[id]; ok {
			wait, second := f.Times[i].Sub(at), int(at.Sub(f.FirstStart).Seconds())
			waits = append(waits, wait)
			worst[second] = max(worst[second], wait.Round(time.Millisecond))
		}
	}
	slices.Sort(waits)
	p99 := quantile(waits, 0.99)
	t.Logf("%d tasks of nine tenants beside %d of the tenth start within %v (p50), %v (p99), %v at "+
		"most", len(waits), flood,
		quantile(waits, 0.5), p99, quantile(waits, 1))
	t.Logf("the longest wait by second: %v", worst)
	most := time.Duration(atMost(float64(quietWithin))) + f.stood
	if len(waits) != quiet || p99 > most {
		t.Errorf("the p99 of the nine tenants is %v in %d tasks, want at most %v in %d", p99, len(waits), most, quiet)
	}
}

// sendQuietly sends n chats of nine tenants in turn, evenly, and stores the times.
func (w *world) sendQuietly(t *testing.T, n int, enqueued map[string]time.Time) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: w.redis.Addr()})
	defer func() { _ = client.Close() }()
	s, err := scheduler.New(client, nil, scheduler.Config{})
	if err != nil {
		t.Error(err)
		return
	}
	tick := time.NewTicker(quietEvery)
	defer tick.Stop()
	for i := range n {
		id := fmt.Sprintf("quiet%05d", i)
		body, err := json.Marshal(map[string]any{
			"model": modelSmall, "max_tokens": 20, "metadata": map[string]string{"headway_task": id},
			"messages": []map[string]string{{"role": "user", "content": "Count."}},
		})
		if err != nil {
			t.Error(err)
			return
		}
		chat, err := llm.NewCall(llm.EndpointChat, "openai", body, llm.MeterRequests)
		if err != nil {
			t.Error(err)
			return
		}
		chat.Flow = fmt.Sprintf("tenant%d", i%tenantsQuiet)
		enqueued[id] = time.Now()
		if _, err := s.Enqueue(t.Context(), chat, tasks.Options{Retention: time.Hour}); err != nil {
			t.Error(err)
			return
		}
		<-tick.C
	}
}
