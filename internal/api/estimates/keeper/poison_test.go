package keeper_test

import (
	"log/slog"
	"math"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/api/estimates"
)

// Impossible counts change no estimate, and are dropped with the next generations.
func TestCountsBeyondAllMeasure(t *testing.T) {
	t.Parallel()
	db := newDocuments(t)
	values := map[string]any{
		"huge": 1e300, "inf": math.Inf(1), "nan": math.NaN(), "negative": -5,
		"below": math.Inf(-1),
	}
	for name, v := range values {
		store(t, db, "a/"+name, bson.M{"limit": "a", "model": name, "number": int64(0), "current": bson.M{
			"n": v, "reserved": v, "used": v, "1_100": v, "1_101": v, "2_7": v, "3_7": v,
		}})
	}
	learner, k := process(t, db, slog.DiscardHandler)
	if err := k.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name := range values {
		scaled := learner.Ratios("a", name).Scale(estimates.Tokens{Input: 10, Output: 100}, false)
		if !(scaled.Input >= 1 && scaled.Input <= 40 && scaled.Output >= 1 && scaled.Output <= 100) {
			t.Errorf("%s: %+v", name, scaled)
		}
		for range 3 {
			for range estimates.Generation {
				learner.Observe(estimates.Sample{
					Limit: "a", Model: name, Estimated: estimates.Tokens{
						Input:  10,
						Output: 100,
					}, Reserved: 110, Used: estimates.Tokens{Input: 10, Output: 30},
				})
			}
			if err := k.Share(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if got := learner.Ratios("a", name).Output; math.Abs(got/0.3-1) > 0.05 {
			t.Errorf("%s: still %v, want 0.3", name, got)
		}
	}
	for _, l := range learner.Learned() {
		if math.IsInf(l.Reserved+l.Used, 0) || math.IsNaN(l.Reserved+l.Used) || l.N < 0 {
			t.Errorf("%+v", l)
		}
	}
}
