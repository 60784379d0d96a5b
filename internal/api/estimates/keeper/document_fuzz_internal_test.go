package keeper

import (
	"maps"
	"math"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/api/estimates"
	"github.com/headway-go/headway/internal/documents"
)

// Estimates are refused, or they scale a request within its bounds, count no less than nothing, and can be added to.
func FuzzEstimates(f *testing.F) {
	for _, fields := range []bson.M{
		nil,
		{"number": int64(math.MaxInt64)},
		{"number": int64(math.MinInt64)},
		{"number": "x"},
		{"current": "x"},
		{"current": bson.M{"n": math.NaN()}},
		{"current": bson.M{"n": 1e9, "0_n": 1e9, "0_0": 1e9, "0_255": 1e9}},
		{"current": bson.M{"n": 1.0, "9_1": 5.0, "-1_1": 5.0, "0_-1": 5.0, "0_256": 5.0, "0": 1.0, "_": 2.0, "0_1_2": 3.0}},
		{"current": bson.M{"n": 300.0, "reserved": 1e300, "used": -1.0}},
		{"previous": bson.M{"n": 5.0}},
		{"limit": 5},
	} {
		document := bson.M{"limit": "a", "model": "m", "number": int64(0), "current": bson.M{}}
		maps.Copy(document, fields)
		text, err := bson.Marshal(document)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		h, err := decode(documents.Document{Key: "a/m", Version: "v", Head: text})
		if err != nil {
			return
		}
		key, state := h.key(), h.state()
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
		h.add(key, state.Number, &estimates.Counts{N: 1})
		h.next()
		if _, err := bson.Marshal(h); err != nil || h.Number != state.Number+1 {
			t.Errorf("the next generation %d: %v", h.Number, err)
		}
	})
}
