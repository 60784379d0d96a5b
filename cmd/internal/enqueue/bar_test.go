package enqueue

import "testing"

func TestCostText(t *testing.T) {
	t.Parallel()
	for cost, want := range map[float64]string{
		0: "0.00", 12.3456: "12.35", 0.25: "0.250", 0.00123456: "0.00123",
		1e-9: "0.000000",
	} {
		if got := costText(cost); got != want {
			t.Errorf("%v: %s, want %s", cost, got, want)
		}
	}
}
