package gateway_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/products/gateway"
	"github.com/headway-go/headway/internal/products/judge"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// ofBatch is a request of a batch, as the gateway enqueues it for a key.
type ofBatch struct {
	N int `json:"n"`
}

func (ofBatch) TaskType() string { return "batch" }

func (ofBatch) Charges() []reservations.Charge {
	return []reservations.Charge{{
		Limit: "pool", Flow: "batch/batches", Priority: "", Tokens: reservations.Tokens{"requests": 1},
	}}
}

// busy is a provider that judges the calls that it gets. The chats of tenant X have X as their model.
type busy struct {
	mu         sync.Mutex // guards what is below
	bucket     *judge.Bucket
	violations int
	calls      []time.Time
	chats      map[string][]time.Time
}

func (b *busy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	b.mu.Lock()
	now := time.Now()
	b.bucket.Fill(now)
	if !b.bucket.HasRoom(1) {
		b.violations++
	}
	b.bucket.Add(-1)
	b.calls = append(b.calls, now)
	for tenant := range strings.SplitSeq("abc", "") {
		if strings.Contains(string(body), `"model":"`+tenant+`"`) {
			b.chats[tenant] = append(b.chats[tenant], now)
		}
	}
	b.mu.Unlock()
	<-time.After(200 * time.Millisecond) //gate:ok called in a bubble
	answer(w, isStream, events)
}

// 200 streaming chats of three tenants at once, over a limit of 20 a second that a batch of 1500 fills: the limit is
// kept and used, the tenants share it fairly, chats go before the batch, and no chat sees a 429.
func TestChatsBesideABatch(t *testing.T) {
	t.Parallel()
	const chats, requests, rate, capacity = 200, 1500, 20., 20.
	limit := reservations.Limit{
		Name: "pool", Priorities: map[string]float64{"interactive": 9, "batch": 1}, Meters: []reservations.Meter{{
			Name: "requests", Rate: rate, Period: time.Second, Capacity: capacity,
		}},
	}
	known := callers{}
	for tenant := range strings.SplitSeq("abc", "") {
		known[tenant] = keyOf(tenant)
	}
	provider := &busy{chats: map[string][]time.Time{}}
	play(t, provider.ServeHTTP, func(c *gateway.Config) { c.Keys = known }, func(w *world, g *gate) {
		t, ctx := w.t, context.Background()
		const travel = 20 * time.Millisecond // of calls that pass one another on their way
		provider.bucket = judge.NewBucket(rate, capacity, travel, time.Now())
		fleet, err := worker.New(g.client, g.limiter, worker.Config{Logger: slog.New(slog.DiscardHandler), Concurrency: 50})
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: w.provider.transport()}
		worker.Handle(fleet, func(ctx context.Context, _ *worker.Job[ofBatch]) error {
			r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1/", strings.NewReader("{}"))
			res, failed := client.Do(r)
			if failed == nil {
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
			return failed
		})
		if err = fleet.Start(ctx); err != nil {
			t.Fatal(err)
		}
		var all []tasks.Args
		for n := range requests {
			all = append(all, ofBatch{N: n})
		}
		if _, err = g.line.EnqueueMany(ctx, all); err != nil {
			t.Fatal(err)
		}
		wait(10 * time.Second)
		began := time.Now()
		var held []<-chan reply
		for n := range chats {
			tenant := string("abc"[n%3])
			body := strings.Replace(streamed, `"m"`, fmt.Sprintf("%q", tenant), 1)
			held = append(held, g.send(ctx, "/v1/chat/completions", body, "Authorization", "Bearer "+tenant))
		}
		longest := time.Duration(0)
		for _, one := range held {
			a := <-one
			if a.err != nil || a.StatusCode != http.StatusOK || !strings.HasSuffix(a.text, events) {
				t.Fatalf("%v, %v: %q", a.err, a.Response, a.text)
			}
			longest = max(longest, a.took)
		}
		wait(20 * time.Second)
		provider.mu.Lock()
		last := provider.calls[len(provider.calls)-1]
		first := provider.calls[0]
		used := (float64(len(provider.calls)) - capacity) / (rate * last.Sub(first).Seconds())
		var ends []time.Time
		for _, times := range provider.chats {
			ends = append(ends, times[len(times)-1])
		}
		until := slices.MinFunc(ends, time.Time.Compare)
		least, most := chats, 0
		for _, times := range provider.chats {
			n := 0
			for _, at := range times {
				if !at.After(until) {
					n++
				}
			}
			least, most = min(least, n), max(most, n)
		}
		t.Logf("%d calls, %d violations, %.1f %% used, chats ended after %v (first tenant %v), %d to %d a tenant",
			len(provider.calls), provider.violations, 100*used, longest, until.Sub(began), least, most)
		if provider.violations > 0 || used < .97 || float64(least) < .95*float64(most) || longest > 14*time.Second {
			t.Error("the limit is not kept, not used, or not shared")
		}
		provider.mu.Unlock() // a call that waits for it would stop the time, and the fleet waits for the call
		if err = fleet.Stop(ctx); err != nil {
			t.Error(err)
		}
		client.CloseIdleConnections()
	}, limit)
}
