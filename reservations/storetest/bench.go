package storetest

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/headway-go/headway/reservations"
)

// benchCallers is how many goroutines ask at the same time.
const benchCallers = 64

// Bench measures a store: a lone call, a call with 64 requests, 64 goroutines that ask the store directly for one
// bucket, and the same through a reservations.Limiter, which lets them share round trips. Each is reported per request.
func Bench(b *testing.B, open func(b *testing.B) Instance) {
	b.Helper()
	limit := reservations.Limit{Name: "bench", Meters: []reservations.Meter{
		{Name: "requests", Rate: 1e9, Period: time.Second, MaxReserved: reservations.Unlimited},
		{Name: "tokens", Rate: 1e12, Period: time.Second, MaxReserved: 1e12},
	}}
	request := reservations.Request{Op: reservations.OpStart, Tokens: []float64{1, 100}}
	b.Run("lone", func(b *testing.B) {
		store := open(b).Store
		for b.Loop() {
			if _, err := store.Apply(b.Context(), limit, "", []reservations.Request{request}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("batch of 64", func(b *testing.B) {
		store := open(b).Store
		batch := make([]reservations.Request, 64)
		for i := range batch {
			batch[i] = request
		}
		for b.Loop() {
			if _, err := store.Apply(b.Context(), limit, "", batch); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(batch)), "ns/request")
	})
	b.Run("64 callers", func(b *testing.B) {
		store := open(b).Store
		parallel(b, func() error {
			_, err := store.Apply(b.Context(), limit, "", []reservations.Request{request})
			return err
		})
	})
	b.Run("64 callers combined", func(b *testing.B) {
		limiter, err := reservations.New(open(b).Store, []reservations.Limit{limit}, reservations.Config{})
		if err != nil {
			b.Fatal(err)
		}
		charge := reservations.Charge{Limit: limit.Name, Tokens: reservations.Tokens{"requests": 1, "tokens": 100}}
		parallel(b, func() error {
			_, err := limiter.Start(b.Context(), charge, nil)
			return err
		})
	})
}

// parallel shares b.N calls among benchCallers goroutines, whatever the number of processors.
func parallel(b *testing.B, call func() error) {
	b.Helper()
	var failed atomic.Pointer[error]
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	eachOf(benchCallers, func(int) {
		for left.Add(-1) >= 0 {
			if err := call(); err != nil {
				failed.Store(&err)
				return
			}
		}
	})
	if err := failed.Load(); err != nil {
		b.Fatal(*err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}
