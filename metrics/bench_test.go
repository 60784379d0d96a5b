package metrics_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/headway-go/headway/internal/testenv"
	"github.com/headway-go/headway/metrics"
)

// BenchmarkScrape measures a scrape while tasks of 1000 keys wait and a hundred keys are labels, and what such a scrape
// does not wait for: the read of the fleet's state.
func BenchmarkScrape(b *testing.B) {
	w := bundleAt(b, testenv.StartRedisServer(b).Addr(), metrics.Config{
		Keys: map[string]int{"api": 100}, Refresh: time.Hour,
	})
	for i := range 1000 {
		w.enqueue(b, call{Key: strconv.Itoa(i), Cost: 10})
		w.enqueue(b, call{Key: strconv.Itoa(i), Cost: 10})
	}
	w.gather(b)
	w.gather(b) // now with the buckets of the keys that have labels
	handler := promhttp.HandlerFor(w.registry, promhttp.HandlerOpts{})
	b.Run("scrape", func(b *testing.B) {
		for b.Loop() {
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/metrics", nil))
			if answer.Code != http.StatusOK {
				b.Fatal(answer.Body.String())
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			w.metrics.Read(b.Context())
		}
	})
}
