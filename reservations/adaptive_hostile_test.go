package reservations_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/test/seeded"
	"github.com/headway-go/headway/reservations"
)

// Answers of a hostile provider, and documents with odd moments, keep an adaptive rate within its bounds at every step.
// When they end, the rate climbs to its highest again while tasks wait, and a refusal lowers it.
func TestHostileAnswersKeepTheBounds(t *testing.T) {
	t.Parallel()
	limit := reservations.Limit{Name: "api", Meters: []reservations.Meter{{
		Name: "r", Rate: 1, Period: time.Second, Capacity: 5,
		Adaptive: reservations.Adaptive{Max: 50, Ramp: time.Minute},
	}}}
	amounts := []float64{0, -1, 1e-300, 1, 4, 5, 1e15, math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64}
	times := []time.Duration{0, 1, -1, time.Millisecond, time.Second, time.Hour, math.MaxInt64, math.MinInt64}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for seed := range seeded.Range(t, 50) {
		random := rand.New(rand.NewPCG(seed, 1))
		now, b := start, bucket.Bucket{}
		check := func(what string) {
			f := b.Meters[0].Filling
			if !(f.Rate >= 1 && f.Rate <= 50) || !(b.Meters[0].Started <= f.Capacity) {
				t.Fatalf("seed %d: after %s the rate is %v, %v left", seed, what, f.Rate, b.Meters[0].Started)
			}
		}
		for range 300 {
			now = now.Add(time.Duration(random.IntN(3000)) * time.Millisecond)
			r := bucket.Request{
				For: times[random.IntN(len(times))], Up: random.IntN(2) == 0,
				Tokens: []float64{amounts[random.IntN(len(amounts))]},
			}
			if r.Op = bucket.OpSync; random.IntN(2) == 0 {
				r.Op = []bucket.Op{bucket.OpBlock, bucket.OpRefuse}[random.IntN(2)]
			}
			b, _ = bucket.Step(b, bucket.Rules(limit), now, r)
			check(fmt.Sprintf("%s of %v for %v", r.Op, r.Tokens, r.For))
		}
		b.Meters[0].Slowed = []time.Time{b.Meters[0].Slowed, {}, now.AddDate(100, 0, 0)}[seed%3]
		b, _ = bucket.Step(b, bucket.Rules(limit), now, bucket.Request{Op: bucket.OpUnblock})
		for range 400 { // half a second each, and tasks take all that comes back
			now = now.Add(500 * time.Millisecond)
			b, _ = bucket.Step(b, bucket.Rules(limit), now, bucket.Request{
				Op: bucket.OpStart, Promoted: true, Tokens: []float64{max(0, b.Meters[0].Filling.Rate)},
			})
			check("a start")
		}
		if rate := b.Meters[0].Filling.Rate; rate < 49 {
			t.Errorf("seed %d: the rate has climbed to %v", seed, rate)
		}
		b, _ = bucket.Step(b, bucket.Rules(limit), now.Add(time.Second), bucket.Request{
			Op: bucket.OpBlock, For: time.Second,
		})
		if rate := b.Meters[0].Filling.Rate; rate > 40 {
			t.Errorf("seed %d: a refusal leaves %v", seed, rate)
		}
	}
}
