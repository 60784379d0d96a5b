package batches_test

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/documents/batches"
)

// bodyLength is the length of an answer's text. The whole body has about 2 kB.
const bodyLength = 1500

// BenchmarkFinish measures the cost of a result: alone, and while 64 handlers of one process store results.
func BenchmarkFinish(b *testing.B) {
	b.Run("alone", func(b *testing.B) {
		s := newStore(b)
		finishAll(b, 1, s.Finish)
	})
	b.Run("64 handlers", func(b *testing.B) {
		s := newStore(b)
		finishAll(b, 64, s.Finish)
	})
	b.Run("64 handlers together", func(b *testing.B) {
		finish, wait := together(newStore(b))
		finishAll(b, 64, finish)
		wait()
	})
}

func finishAll(b *testing.B, handlers int, finish func(context.Context, batches.Result) error) {
	b.Helper()
	var line atomic.Int64
	var group sync.WaitGroup
	b.ResetTimer()
	for range handlers {
		group.Go(func() {
			for {
				n := int(line.Add(1))
				if n > b.N {
					return
				}
				if err := finish(b.Context(), answered("b", n, bodyLength)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "results/s")
}

// BenchmarkRead shows that reading needs constant memory: the largest heap is the same for 1000 and 100 000 results.
func BenchmarkRead(b *testing.B) {
	heaps := map[int]uint64{}
	for _, n := range []int{1000, 100_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			s := newStore(b)
			if _, _, err := s.Open(b.Context(), batches.Batch{ID: "b", Lines: n}); err != nil {
				b.Fatal(err)
			}
			began := time.Now()
			fill(b, s, "b", n, bodyLength)
			b.Logf("%d stored in %v", n, time.Since(began).Round(time.Millisecond))
			b.ResetTimer()
			for range b.N {
				heaps[n] = readAll(b, s, n)
			}
			b.ReportMetric(float64(heaps[n])/1e6, "peak-heap-MB")
			counts(b, s, n)
		})
	}
	if small, large := heaps[1000], heaps[100_000]; small > 0 && large > small+8_000_000 {
		b.Errorf("reading 100 000 results took %d bytes of heap, 1000 took %d", large, small)
	}
}

// readAll reads all results and returns the largest heap of live objects.
func readAll(b *testing.B, s *batches.Store, want int) uint64 {
	b.Helper()
	var m runtime.MemStats
	var peak uint64
	n := 0
	for _, err := range s.All(b.Context(), "b") {
		if err != nil {
			b.Fatal(err)
		}
		if n++; n%max(100, want/20) == 0 {
			runtime.GC()
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapAlloc)
		}
	}
	if n != want {
		b.Fatalf("read %d results, want %d", n, want)
	}
	return peak
}

// counts measures one count: of all documents, by a Counter with stored sums, and of the finished lines.
func counts(b *testing.B, s *batches.Store, n int) {
	b.Helper()
	counter := s.Counter("b")
	if _, err := counter.Progress(b.Context()); err != nil {
		b.Fatal(err)
	}
	for name, count := range map[string]func() (int, error){
		"counts-ms": func() (int, error) {
			c, err := s.Counts(b.Context(), "b")
			return c.Done + c.Failed, err
		},
		"counter-ms": func() (int, error) {
			c, err := counter.Progress(b.Context())
			return c.Done + c.Failed, err
		},
		"finished-ms": func() (int, error) {
			lines, err := s.Lines(b.Context(), "b", 1, n)
			return len(lines), err
		},
	} {
		const times = 5
		began := time.Now()
		for range times {
			if got, err := count(); got != n || err != nil {
				b.Fatal(name, got, err)
			}
		}
		b.ReportMetric(float64(time.Since(began).Microseconds())/1000/times, name) //gate:ok a benchmark
	}
}
