package e2e_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The provider refuses one call and names 5 seconds. One worker receives the refusal, and the whole fleet stops. Then
// it goes on in the old order.
//
//nolint:paralleltest // measures a limit: it has the machine for itself
func TestRefusedByProvider(t *testing.T) {
	measures(t, 25*time.Second)
	const tasks, number, block = 500, 150, 5 * time.Second
	s := requestsOnly
	s.provider = append([]string{"-block-number=" + strconv.Itoa(number), "-block-for=" + block.String()}, s.provider...)
	w := newWorld(t, s)
	w.start(t, fleet)
	w.awaitWorkers(t)
	w.enqueue(t, smallChats(1, tasks), "--reserve")
	w.awaitCompleted(t, tasks)
	w.wantNoRetries(t)
	f := w.finish(t)
	f.wantOnce(t, tasks)
	if f.BlockedAt.IsZero() || f.Blocked != 0 {
		t.Errorf("refused at %v; then %d calls came that should not have", f.BlockedAt, f.Blocked)
	}
	if f.LongestGapSeconds > block.Seconds()+atMost(1) {
		t.Errorf("the fleet stopped for %.2f s", f.LongestGapSeconds)
	}
	// Order counts from the first accepted call. Calls that were sent before the refusal may come before it.
	most := 0
	for place, name := range f.Order {
		n, err := strconv.Atoi(strings.TrimPrefix(name, "t"))
		if err != nil {
			t.Fatalf("task %q: %v", name, err)
		}
		if name != f.BlockedTask {
			most = max(most, place+1-n, n-place-1)
		}
	}
	back := slices.Index(f.Order, f.BlockedTask) + 1
	t.Logf("longest gap %.2f s; task %s, refused as number %d, started as number %d; another was %d places away from "+
		"its own at most",
		f.LongestGapSeconds, f.BlockedTask, number, back, most)
	if places := sized(100, 25); most > places || back > number+places {
		t.Errorf("the order was not kept")
	}
}
