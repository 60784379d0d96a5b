package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// No line is wider than the terminal, or it would break and could not be redrawn.
func TestArrange(t *testing.T) {
	t.Parallel()
	parts := []string{"175 of 500 done", "22 of 20 requests/s, 784 of 4000 tokens/s", "cost 0.02", "at least 16s left"}
	for width, want := range map[int][]string{
		200: {strings.Join(parts, "; ")},
		60:  {"175 of 500 done; 22 of 20 requests/s, 784 of 4000 tokens/s", "cost 0.02; at least 16s left"},
		30:  {"175 of 500 done", "22 of 20 requests/s, 784 of", "4000 tokens/s; cost 0.02", "at least 16s left"},
	} {
		if diff := cmp.Diff(want, arrange(parts, width)); diff != "" {
			t.Error(width, diff)
		}
	}
	for width := range 40 {
		for _, line := range arrange(append(parts, strings.Repeat("é", 50)), width) {
			if n := utf8.RuneCountInString(line); n > max(1, width) {
				t.Errorf("%d columns of %d: %s", n, width, line)
			}
		}
	}
}

func TestCostText(t *testing.T) {
	t.Parallel()
	for cost, want := range map[float64]string{0: "0.00", 12.3456: "12.35", 0.25: "0.250", 0.00123456: "0.00123", 1e-9: "0.000000"} {
		if got := costText(cost); got != want {
			t.Errorf("%v: %s, want %s", cost, got, want)
		}
	}
}
