package batches_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/headway-go/headway/batches"
)

func BenchmarkProbe(b *testing.B) {
	s := newStore(b, batches.Options{})
	ctx := b.Context()
	if _, _, err := s.Open(ctx, batches.Batch{ID: "big", Lines: 100000}); err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	for i := range 200 {
		if first, err := s.Finish(ctx, answered("big", i+1, 1500)); err != nil || !first {
			b.Fatal(first, err)
		}
	}
	fmt.Println("one by one /s", 200/time.Since(start).Seconds())
	for _, chunk := range []int{16, 128, 1000} {
		start = time.Now()
		for i := 0; i < 2000; i += chunk {
			var rs []batches.Result
			for j := range chunk {
				rs = append(rs, answered("big", chunk*100000+i+j, 1500))
			}
			for _, o := range s.FinishMany(ctx, rs) {
				if o.Err != nil || !o.First {
					b.Fatal(o)
				}
			}
		}
		fmt.Println("chunk", chunk, "/s", 2000/time.Since(start).Seconds())
	}
	start = time.Now()
	for i := 200; i < 100000; i += 500 {
		var rs []batches.Result
		for j := range 500 {
			rs = append(rs, answered("big", i+j+1, 1500))
		}
		s.FinishMany(ctx, rs)
	}
	fmt.Println("fill", time.Since(start))
	for range 3 {
		start = time.Now()
		c, err := s.Counts(ctx, "big")
		fmt.Println("counts", time.Since(start), c, err)
	}
	start = time.Now()
	f, err := s.Finished(ctx, "big", 1, 100000)
	fmt.Println("finished", time.Since(start), f.Len(), err)
	start = time.Now()
	n := 0
	for _, err := range s.Results(ctx, "big") {
		if err != nil {
			b.Fatal(err)
		}
		n++
	}
	fmt.Println("results", time.Since(start), n)
	start = time.Now()
	n = 0
	for _, err := range s.FailedOnes(ctx, "big") {
		if err != nil {
			b.Fatal(err)
		}
		n++
	}
	fmt.Println("failed", time.Since(start), n)
}
