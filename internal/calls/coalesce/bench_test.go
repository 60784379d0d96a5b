package coalesce_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/headway-go/headway/internal/calls/coalesce"
)

// BenchmarkDo measures the overhead of Do, with a call that takes no time: for a single caller, and for 64 callers of
// one key.
func BenchmarkDo(b *testing.B) {
	for name, callers := range map[string]int{"alone": 1, "64 callers": 64} {
		b.Run(name, func(b *testing.B) {
			var calls atomic.Int64
			group := coalesce.Group[string, int, int]{Call: func(_ context.Context, _ string, requests []int) ([]int, error) {
				calls.Add(1)
				return requests, nil
			}}
			b.ReportAllocs()
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						if answers, err := group.Do(b.Context(), "key", 7); err != nil || answers[0] != 7 {
							b.Error(answers, err)
							return
						}
					}
				})
			}
			wg.Wait()
			group.Close()
			b.ReportMetric(float64(b.N)/float64(calls.Load()), "requests/call")
		})
	}
}
