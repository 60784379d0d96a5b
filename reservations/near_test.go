package reservations_test

import (
	"encoding/json"
	"math"
	"testing"
)

// near compares numbers within rounding.
func near(t *testing.T, got []float64, want ...float64) {
	t.Helper()
	ok := len(got) == len(want)
	for i := range want {
		ok = ok && math.Abs(got[i]-want[i]) <= 1e-6
	}
	if !ok {
		t.Errorf("got %v, want %v", got, want)
	}
}

// viaJSON encodes and decodes.
func viaJSON(t *testing.T, from, to any) {
	t.Helper()
	text, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(text, to)
	}
	if err != nil {
		t.Fatal(err)
	}
}
