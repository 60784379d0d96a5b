package reservations_test

import (
	"testing"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

// A start that has to wait, its promotion and its settlement: what one waiting task asks of Step.
func BenchmarkStep(b *testing.B) {
	l := bucket.Rules(limitOf(perSecond("requests", 10, 10, inf), perSecond("tokens", 1000, 1000, inf)))
	b.ReportAllocs()
	now := 0.
	var state bucket.Bucket
	for b.Loop() {
		now += .1
		at := clock(now)
		for _, r := range []bucket.Request{start(1, 100), holder(1, 100), settle(0, 100)} {
			state, _ = bucket.Step(state, l, at, r)
		}
	}
	b.ReportMetric(3, "steps/op")
}

// A look of the dispatcher at 100 waiting tasks.
func BenchmarkPlan(b *testing.B) {
	l := limitOf(perSecond("requests", 10, 10, inf), perSecond("tokens", 1000, 1000, inf))
	state, _ := bucket.Step(bucket.Bucket{}, bucket.Rules(l), clock(0), start(10, 1000))
	all := make([]bucket.Ask, 100)
	for i := range all {
		all[i].Tokens = reservations.Tokens{"requests": 1, "tokens": 100}
	}
	b.ReportAllocs()
	for b.Loop() {
		if starts := state.Plan(clock(1), all, clock(100)); len(starts) != len(all) {
			b.Fatal(len(starts))
		}
	}
}
