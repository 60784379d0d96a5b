package main

import (
	"strings"
	"testing"
	"time"
)

// What is above the rate while the bucket empties is no breach of the limit, and is said to be none.
func TestBurstIsNamed(t *testing.T) {
	t.Parallel()
	for taken, burst := range map[float64]bool{2925: true, 501: false, 20: false} {
		f := figures{Requests: 3000, Done: 591, Waiting: 2409, measured: true, Rates: []rate{{Meter: "requests", Taken: taken, Allowed: 500, Period: time.Minute}}}
		if text := f.text(); strings.Contains(text, "of 500 requests/m (burst)") != burst {
			t.Errorf("%v of 500: %s", taken, text)
		}
	}
}
