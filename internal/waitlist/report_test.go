package waitlist_test

import (
	"testing"
	"time"

	"github.com/headway-go/headway/internal/waitlist"
)

// A bucket refuses a task, and a settlement changes the bucket before the task joins: the newer answer counts.
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

// The answers of buckets for which no task waits are forgotten.
func TestAnswersOfIdleBucketsExpire(t *testing.T) {
	t.Parallel()
	f := onMini(t)
	f.report(waitlist.Answer{Bucket: "openai", Version: 2, State: []byte("settled"), Sooner: true})
	f.pass(2 * time.Minute)
	if keys := f.client.Keys(t.Context(), "*").Val(); len(keys) > 0 {
		t.Errorf("keys %v are left", keys)
	}
}
