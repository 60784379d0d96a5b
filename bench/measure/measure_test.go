package measure_test

import (
	"math"
	"testing"
	"time"

	"github.com/headway-go/headway/bench/measure"
)

var hundred = measure.Limit{Rate: 100, Burst: 10}

// perfect returns arrivals that use the whole limit: a burst, then one every 10 ms.
func perfect(n int) []measure.Arrival {
	arrivals := make([]measure.Arrival, n)
	for i := range arrivals {
		arrivals[i] = measure.Arrival{At: time.Second + time.Duration(max(0, i-9))*10*time.Millisecond, Seq: i, Tokens: 1}
	}
	return arrivals
}

func near(t *testing.T, what string, got, want, by float64) {
	t.Helper()
	if math.Abs(got-want) > by {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestAPerfectRun(t *testing.T) {
	t.Parallel()
	a := perfect(1000)
	near(t, "share", measure.Share(a, hundred), 1, 1e-9)
	near(t, "worst second", measure.Worst(a, hundred, time.Second), 109./110, 1e-9)
	near(t, "worst ten seconds", measure.Worst(a, hundred, 10*time.Second), 1000./1010, 1e-9)
	near(t, "over", measure.Over(a, hundred), 0, 1e-6)
	for _, lag := range measure.Lag(a, hundred, nil) {
		near(t, "lag", lag.Seconds(), 0, 1e-6)
	}
	lost := measure.PlacesLost(a)
	if lost[len(lost)-1] != 0 {
		t.Errorf("places lost: %v", lost[len(lost)-1])
	}
}

func TestViolationsAreMeasured(t *testing.T) {
	t.Parallel()
	// BullMQ's limiter at 100 a second allows 100 at the end of one second and 100 at the beginning of the next.
	var a []measure.Arrival
	for i := range 200 {
		a = append(a, measure.Arrival{At: 900*time.Millisecond + time.Duration(i)*time.Millisecond, Seq: i, Tokens: 1})
	}
	near(t, "worst second", measure.Worst(a, hundred, time.Second), 200./110, 1e-9)
	near(t, "over", measure.Over(a, hundred), 200-10-100*.199, 1e-6)
	// One more than the burst at once.
	var burst []measure.Arrival
	for i := range 11 {
		burst = append(burst, measure.Arrival{Seq: i, Tokens: 1})
	}
	near(t, "over by one", measure.Over(burst, hundred), 1, 1e-9)
	// Two processes with the whole limit each.
	twice := append(perfect(1000), perfect(1000)...)
	if worst := measure.Worst(twice, hundred, 10*time.Second); worst < 1.9 {
		t.Errorf("twice the limit: worst ten seconds %v", worst)
	}
	near(t, "share", measure.Share(twice, hundred), 2, 1e-9)
}

func TestHalfTheLimit(t *testing.T) {
	t.Parallel()
	var a []measure.Arrival
	for i := range 1001 {
		a = append(a, measure.Arrival{At: time.Duration(i) * 20 * time.Millisecond, Seq: i, Tokens: 1})
	}
	near(t, "share", measure.Share(a, hundred), .5, .003)
	near(t, "share when cut off at 40 s", measure.ShareUntil(a, hundred, 40*time.Second), .25, .003)
	near(t, "worst second", measure.Worst(a, hundred, time.Second), 50./110, 1e-9)
	lag := measure.Lag(a, hundred, nil)
	near(t, "longest lag", lag[len(lag)-1].Seconds(), 20-9.91, .011)
}

func TestTokensCountNotCalls(t *testing.T) {
	t.Parallel()
	limit := measure.Limit{Rate: 1000, Burst: 100}
	var a []measure.Arrival
	for i := range 100 {
		a = append(a, measure.Arrival{At: time.Duration(max(0, i-9)) * 10 * time.Millisecond, Seq: i, Tokens: 10})
	}
	near(t, "share", measure.Share(a, limit), 1, 1e-9)
	near(t, "over", measure.Over(a, limit), 0, 1e-6)
}

func TestLagOfAPacedLoadIsSinceTheTaskWasThere(t *testing.T) {
	t.Parallel()
	enqueued := map[int]time.Duration{}
	var a []measure.Arrival
	for i := range 500 { // 50 a second, each started 3 ms after its enqueueing
		enqueued[i] = time.Duration(i) * 20 * time.Millisecond
		a = append(a, measure.Arrival{At: enqueued[i] + 3*time.Millisecond, Seq: i, Tokens: 1})
	}
	lag := measure.Lag(a, hundred, enqueued)
	if lag[0] != 3*time.Millisecond || lag[len(lag)-1] != 3*time.Millisecond {
		t.Errorf("lag from %v to %v, want 3 ms", lag[0], lag[len(lag)-1])
	}
}

func TestPlacesLost(t *testing.T) {
	t.Parallel()
	var a []measure.Arrival
	for at, seq := range []int{1, 2, 3, 0, 4} {
		a = append(a, measure.Arrival{At: time.Duration(at), Seq: seq, Tokens: 1})
	}
	lost := measure.PlacesLost(a)
	if want := 3; lost[len(lost)-1] != want || lost[len(lost)-2] != 0 {
		t.Errorf("places lost %v: want three for task 0 and none for others", lost)
	}
}

func TestQuantileAndMedian(t *testing.T) {
	t.Parallel()
	near(t, "odd", measure.Median([]float64{3, 1, 2}), 2, 0)
	near(t, "even", measure.Median([]float64{4, 1, 3, 2}), 2.5, 0)
	near(t, "none", measure.Median(nil), 0, 0)
	if got := measure.Quantile([]int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, .5); got != 6 {
		t.Errorf("p50 %d", got)
	}
	if got := measure.Quantile([]int{1, 2}, .99); got != 2 {
		t.Errorf("p99 %d", got)
	}
	if got := measure.Quantile([]int(nil), .5); got != 0 {
		t.Errorf("none %d", got)
	}
}
