package keeper

import (
	"maps"
	"math"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/estimates"
)

// Estimates are refused, or they scale a request within its bounds, count no less than nothing, and can be added to.
func FuzzEstimates(f *testing.F) {
	for _, fields := range []bson.M{
		nil,
		{"number": int64(math.MaxInt64)},
		{"number": int64(math.MinInt64)},
		{"number": "x"},
		{"g0": "x"},
		{"g0": bson.M{"n": math.NaN()}},
		{"g0": bson.M{"n": 1e9, "0_n": 1e9, "0_0": 1e9, "0_255": 1e9}},
		{"g0": bson.M{"n": 1.0, "9_1": 5.0, "-1_1": 5.0, "0_-1": 5.0, "0_256": 5.0, "0": 1.0, "_": 2.0, "0_1_2": 3.0}},
		{"g0": bson.M{"n": 300.0, "reserved": 1e300, "used": -1.0}},
		{"g-1": bson.M{"n": 5.0}},
		{"limit": 5},
	} {
		document := bson.M{"_id": "a/m", "limit": "a", "model": "m", "number": int64(0)}
		maps.Copy(document, fields)
		text, err := bson.Marshal(document)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		key, state, err := decode(text)
		if err != nil {
			return
		}
		if state.Number < 0 || state.Number == math.MaxInt64 {
			t.Errorf("generation %d", state.Number)
		}
		learner, err := estimates.New(estimates.Config{})
		if err != nil {
			t.Fatal(err)
		}
		learner.Set(key, state)
		sample := estimates.Sample{
			Limit: key.Limit, Model: key.Model, Estimated: estimates.Tokens{Input: 10, Output: 100}, Reserved: 110,
			Used: estimates.Tokens{Input: 10, Output: 30},
		}
		learner.Observe(sample)
		for _, open := range []bool{false, true} {
			got := learner.Ratios(key.Limit, key.Model).Scale(sample.Estimated, open)
			if !(got.Input >= 1 && got.Input <= 40 && got.Output >= 1 && got.Output <= 10_000) || !open && got.Output > 100 {
				t.Errorf("open %v: %+v", open, got)
			}
		}
		for _, l := range learner.Learned() {
			if !(l.N > 0 && l.Reserved >= 0 && l.Used >= 0 && l.Reserved+l.Used < 1e300 && l.ErrorP50 > 0 && l.ErrorP50 <= 256) {
				t.Errorf("%+v", l)
			}
		}
		if _, err := bson.Marshal(next(state.Number, text)); err != nil {
			t.Errorf("the next generation: %v", err)
		}
	})
}
