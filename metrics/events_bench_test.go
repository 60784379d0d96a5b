package metrics_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/headway-go/headway/metrics"
	"github.com/headway-go/headway/worker"
)

// BenchmarkEvents measures what counting the start and the end of one task costs.
func BenchmarkEvents(b *testing.B) {
	e := metrics.New(metrics.Config{}).Event
	for name, limited := range map[string]bool{"no limit": false, "limit": true} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			start := worker.Event{Task: ref("")}
			end := worker.Event{Task: ref(""), Kind: worker.KindSucceeded, Elapsed: time.Millisecond}
			if limited {
				start.Charges, end.Charges = call{Cost: 1}.Charges(), call{Cost: 1}.Charges()
			}
			for i := range b.N {
				start.Task.ID = strconv.Itoa(i)
				end.Task.ID = start.Task.ID
				e(start)
				e(end)
			}
		})
	}
}
