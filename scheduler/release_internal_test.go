package scheduler

import (
	"testing"
	"time"
)

// When the store answers again, everybody who waits for it is due; who joins after that waits as long as told.
func TestReleaseEndsTheWaitOfAnOutage(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l lines) {
		t.Helper()
		outage := func(entries ...entry) {
			t.Helper()
			if _, _, err := l.recordOutage(t.Context(), entries); err != nil {
				t.Fatal(err)
			}
		}
		release := func() bool {
			t.Helper()
			_, earlier, err := l.release(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return earlier
		}
		if release() {
			t.Error("there was nobody to release")
		}
		outage(dueIn("b", time.Hour), dueIn("a", 10*time.Second))
		same(t, "during the outage", []string(nil), mustPop(t, l))
		if !release() {
			t.Error("nobody was told that the line is due earlier")
		}
		same(t, "released", []string{"a", "b"}, mustPop(t, l))
		outage(dueIn("c", 10*time.Second))
		same(t, "a second outage", []string(nil), mustPop(t, l))
		release()
		same(t, "released again", []string{"c"}, mustPop(t, l))
	})
}
