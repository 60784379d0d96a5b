package redisstore_test

import (
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations"
)

// BenchmarkContention lets stores, each with a client of its own as processes have it, ask for one bucket at once.
func BenchmarkContention(b *testing.B) {
	two := reservations.Limit{Name: "two", Meters: []reservations.Meter{
		reservations.PerMinute("requests", 500), reservations.PerMinute("tokens", 200_000),
	}}
	requests := []bucket.Request{{Op: bucket.OpStart, Tokens: []float64{1, 400}}}
	for _, processes := range []int{1, 4, 16, 64} {
		b.Run(strconv.Itoa(processes), func(b *testing.B) {
			url := testenv.StartRedisServer(b).URL()
			took := make([][]time.Duration, processes)
			stores := make([]reservations.Store, processes)
			for p := range stores {
				stores[p] = open(b, url)
			}
			b.ResetTimer()
			var running sync.WaitGroup
			for p := range stores {
				running.Go(func() {
					for range max(1, b.N/processes) {
						began := time.Now()
						if _, err := bucket.Apply(b.Context(), stores[p], bucket.Rules(two), "", requests); err != nil {
							b.Error(err)
						}
						took[p] = append(took[p], time.Since(began))
					}
				})
			}
			running.Wait()
			b.StopTimer()
			all := slices.Concat(took...)
			slices.Sort(all)
			b.ReportMetric(float64(len(all))/b.Elapsed().Seconds(), "decisions/s")
			b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(float64(all[len(all)-1].Microseconds())/1000, "longest-ms")
		})
	}
}
