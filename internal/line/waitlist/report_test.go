package waitlist_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/internal/line/waitlist"
)

// If a settlement changes a bucket after it refused a task and before the task joins, the newer answer counts.
func TestAnswerBeforeATaskJoins(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f fixture) {
		t.Helper()
		f.report(waitlist.Answer{Bucket: "openai", Version: 2, State: []byte("settled"), Sooner: true})
		f.report(waitlist.Answer{Bucket: "openai", Version: 1, State: []byte("refused"), Joins: true})
		f.join(entry("a"))
		same(t, "state", "settled", string(f.due().State))
	})
}

// The answers of buckets without waiting tasks expire.
func TestAnswersOfIdleBucketsExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := inMemory(t)
		f.report(waitlist.Answer{Bucket: "openai", Version: 2, State: []byte("settled"), Sooner: true})
		f.pass(2 * time.Minute)
		if keys := f.client.Keys(t.Context(), "*").Val(); len(keys) > 0 {
			t.Errorf("keys %v are left", keys)
		}
	})
}
