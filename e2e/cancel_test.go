package e2e_test

import (
	"encoding/json"
	"testing"
	"time"
)

// A batch is cancelled while tasks of other batches wait behind it and between its tasks. The others start sooner,
// the limit is used as before, and no window exceeds it.
//
//nolint:paralleltest // measures a limit: it has the machine for itself
func TestCancelled(t *testing.T) {
	measures(t, 20*time.Second)
	const first, second, third = 700, 200, 200
	w := newWorld(t, setting{
		limit:    "{meters: {requests: {rate: 50/s, capacity: 100}}}",
		provider: []string{"-requests-rate=50", "-requests-capacity=100"},
	})
	w.start(t, fleet)
	w.awaitWorkers(t) // or tasks that were due before come late, a second time
	cancelled := w.enqueue(t, smallChats(1, first), "--reserve")
	w.enqueue(t, smallChats(first+1, second), "--reserve")
	between := w.enqueue(t, smallChats(first+second+1, 2*third), "--reserve")
	w.enqueue(t, smallChats(first+second+2*third+1, third), "--reserve")
	w.awaitCompleted(t, 150)
	began := time.Now()
	for _, id := range []string{cancelled, between} {
		r := command(t, "headway", w.env(w.redis.URL()), "", "cancel", id, "--json", "--config", w.config)
		var got struct{ Withdrawn, Running int }
		if err := json.Unmarshal([]byte(r.out), &got); err != nil || r.code != 0 || got.Withdrawn < 200 {
			t.Fatalf("cancel: exit %d, %v: %s%s", r.code, err, r.out, r.err)
		}
		t.Logf("%d tasks taken back, %d run", got.Withdrawn, got.Running)
	}
	await(t, "all that are left", func() (bool, string) {
		i := w.info(t)
		return i.Pending+i.Active+i.Scheduled+i.Retry == 0, describe(i)
	})
	t.Logf("the others were done %.1f s after that", time.Since(began).Seconds())
	w.wantNoRetries(t)
	f := w.finish(t)
	f.wantUsed(t, f.Utilization, 0.85)
	if f.deliveries > atMost(1.1) {
		t.Errorf("%.2f deliveries a task", f.deliveries)
	}
}
