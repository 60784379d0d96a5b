package reservations_test

import (
	"math"
	"testing"

	"github.com/headway-go/headway/reservations"
)

// A begin that is deferred, its return and its settlement: what one waiting task asks of Step.
func BenchmarkStep(b *testing.B) {
	l := chatLimit(math.Inf(1), math.Inf(1), 10, 1000)
	n := []float64{1, 100}
	b.ReportAllocs()
	now := 0.
	var bucket reservations.Bucket
	for b.Loop() {
		now += .1
		at := clock(now)
		bucket, _ = reservations.Step(bucket, l, at, reservations.Request{Op: begin, Tokens: n})
		bucket, _ = reservations.Step(bucket, l, at, reservations.Request{Op: begin, State: reserved, Tokens: n})
		bucket, _ = reservations.Step(bucket, l, at, reservations.Request{Op: settle, Tokens: n})
	}
	b.ReportMetric(3, "steps/op")
}
