package metrics_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/metrics"
	"github.com/headway-go/headway/worker"
)

// BenchmarkScrape measures a scrape while tasks of 1000 keys wait and have run, with as many keys as labels as a limit
// may have: none, the default of --metrics-keys, a hundred, all of them. A scrape does not wait for the read of the
// fleet's state, which is measured beside it.
func BenchmarkScrape(b *testing.B) {
	for _, labels := range []int{0, 20, 100, 1000} {
		b.Run(fmt.Sprintf("labels=%d", labels), func(b *testing.B) {
			client := redis.NewClient(&redis.Options{Addr: testenv.StartRedisServer(b).Addr(), MaxRetries: -1})
			defer func() { _ = client.Close() }()
			w := bundleOf(b, client, metrics.Config{Keys: map[string]int{"api": labels}, Refresh: time.Hour})
			e := w.metrics.Event
			for i := range 1000 {
				c := call{Key: strconv.Itoa(i), Cost: 10}
				w.enqueue(b, c)
				w.enqueue(b, c)
				e(worker.Event{Kind: worker.KindStarted, Task: ref(""), Charges: c.Charges()})
				e(worker.Event{Task: ref(""), Charges: c.Charges(), Kind: worker.KindSucceeded})
			}
			w.gather(b)
			series := 0
			for _, f := range w.gather(b) { // now with the buckets of the keys that have labels
				series += len(f.GetMetric())
			}
			handler := promhttp.HandlerFor(w.registry, promhttp.HandlerOpts{})
			b.Run("scrape", func(b *testing.B) {
				for b.Loop() {
					answer := httptest.NewRecorder()
					handler.ServeHTTP(answer, httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/metrics", nil))
					if answer.Code != http.StatusOK {
						b.Fatal(answer.Body.String())
					}
				}
				b.ReportMetric(float64(series), "series")
			})
			b.Run("read", func(b *testing.B) {
				for b.Loop() {
					w.metrics.Read(b.Context())
				}
			})
		})
	}
}
