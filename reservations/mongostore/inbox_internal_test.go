package mongostore

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/internal/stored"
)

// rivals are two processes on one bucket whose clock the test sets.
type rivals struct {
	now        time.Time
	one, other *Store
}

func newRivals(t *testing.T) *rivals {
	t.Helper()
	r := &rivals{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	db := testenv.Database(t)
	r.one = New(db, Options{}).WithClock(func() time.Time { return r.now }).WithPatience(time.Minute)
	r.other = New(db, Options{}).WithClock(func() time.Time { return r.now }).WithPatience(time.Minute)
	return r
}

func hourly() reservations.Limit {
	return reservations.Limit{Name: "hourly", Meters: []reservations.Meter{
		{Name: "m", Rate: 10, Period: time.Hour},
	}}
}

func startOf(n float64) []bucket.Request {
	return []bucket.Request{{Op: bucket.OpStart, Tokens: []float64{n}}}
}

func mustApply(t *testing.T, s *Store, limit reservations.Limit, n float64) bucket.Answer {
	t.Helper()
	o, err := bucket.Apply(t.Context(), s, bucket.Rules(limit), "", startOf(n))
	if err != nil {
		t.Fatal(err)
	}
	return o[0]
}

func mustPush(t *testing.T, s *Store, e entry) {
	t.Helper()
	if _, err := s.push(t.Context(), "hourly", e); err != nil {
		t.Fatal(err)
	}
}

func mustRead(t *testing.T, s *Store) state {
	t.Helper()
	got, err := s.read(t.Context(), "hourly", 0)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// stayBusy has the store leave requests in the inbox at once, even if the test stalls.
func stayBusy(s *Store) {
	s.memory.Change("hourly", func(m *remembered) { m.busy = time.Now().Add(time.Hour) })
}

// A swap answers what others left, before its own requests; also one whose process wrote last and does not read.
func TestSwapAnswersTheInbox(t *testing.T) {
	t.Parallel()
	r, l := newRivals(t), hourly()
	for range 3 {
		mustApply(t, r.one, l, 1)
	}
	mustPush(t, r.other, entry{ID: 11, Limit: fingerprint(bucket.Rules(l)), Requests: startOf(4)})
	mustPush(t, r.other, entry{ID: 12, Limit: fingerprint(bucket.Rules(l)), Requests: append(startOf(3), startOf(2)...)})
	o := mustApply(t, r.one, l, 1)
	if o.State != bucket.StateReserved || o.Bucket.Version != 7 {
		t.Errorf("after two that were first: %+v", o)
	}
	seen := mustRead(t, r.other)
	if len(seen.Inbox) != 0 || len(seen.Answers) != 2 {
		t.Fatalf("inbox %v, answers %v", seen.Inbox, seen.Answers)
	}
	if got := seen.Answers[key(11)]; len(got) != 1 || !got[0].Started() || !got[0].At.Equal(r.now) {
		t.Errorf("the first is answered %+v", got)
	}
	wait := 12 * time.Minute // 2 tokens
	got := seen.Answers[key(12)]
	if len(got) != 2 || !got[0].Started() || got[1].State != bucket.StateReserved || got[1].Wait() != wait {
		t.Errorf("the second is answered %+v", got)
	}
	if !reflect.DeepEqual(got[1].Bucket, seen.Bucket) {
		t.Errorf("bucket %+v, want %+v", got[1].Bucket, seen.Bucket)
	}
}

// Another process decides a request as it was sent, with the exact end of its hold.
func TestInboxKeepsRequests(t *testing.T) {
	t.Parallel()
	granted := bucket.Answer{At: time.Unix(1e9, 12_345_678).UTC(), Hold: 100*time.Millisecond + 1}
	sent := entry{ID: 1, Limit: 2, At: time.Unix(0, 3).UTC(), Requests: []bucket.Request{
		{
			Op: bucket.OpSettle, Tokens: []float64{.1, -2}, Reserved: true, For: 1, Lease: 2, ID: 3,
			HoldEnd: granted.HoldEnd(),
		},
		{Op: bucket.OpStart, Promoted: true, Urgent: true, Dry: true},
	}}
	var got entry
	if err := stored.Decode(stored.Encode(sent), &got); err != nil || !reflect.DeepEqual(got, sent) {
		t.Errorf("%v: %+v, want %+v", err, got, sent)
	}
}

// The entry of a process with another limit is left to that process, and removed when it is too old. So is an answer.
func TestInboxIsCleared(t *testing.T) {
	t.Parallel()
	r, l := newRivals(t), hourly()
	mustApply(t, r.one, l, 1)
	mustPush(t, r.other, entry{ID: 11, Limit: 7, Requests: startOf(1)})
	unfit := []bucket.Request{{Op: bucket.OpStart, Tokens: []float64{1, 2}}}
	mustPush(t, r.other, entry{ID: 12, Limit: fingerprint(bucket.Rules(l)), Requests: unfit})
	mustPush(t, r.other, entry{ID: 13, Limit: fingerprint(bucket.Rules(l)), Requests: startOf(1)})
	mustApply(t, r.one, l, 1)
	if seen := mustRead(t, r.one); len(seen.Inbox) != 2 || len(seen.Answers) != 1 || seen.Bucket.Version != 3 {
		t.Fatalf("inbox %v, answers %v, version %d", seen.Inbox, seen.Answers, seen.Bucket.Version)
	}
	r.now = r.now.Add(entryKept + 1)
	mustApply(t, r.one, l, 1)
	if seen := mustRead(t, r.one); len(seen.Inbox) != 0 || len(seen.Answers) != 0 || seen.Bucket.Version != 4 {
		t.Errorf("inbox %v, answers %v, version %d", seen.Inbox, seen.Answers, seen.Bucket.Version)
	}
}

// A process in a hurry finds the inbox full of others, and swaps as ever.
func TestInboxIsBounded(t *testing.T) {
	t.Parallel()
	r, l := newRivals(t), hourly()
	mustApply(t, r.one, l, 1)
	for id := range int64(inboxMost) {
		mustPush(t, r.other, entry{ID: id + 1, Limit: 7, Requests: startOf(1)})
	}
	if _, err := r.other.push(t.Context(), "hourly", entry{ID: 999}); !errors.Is(err, errNotLeft) {
		t.Errorf("one more: %v", err)
	}
	r.one.memory.pushed("hourly", mustRead(t, r.one), 0)
	if r.one.memory.Get("hourly").busy.IsZero() {
		t.Fatal("the bucket does not count as busy")
	}
	stayBusy(r.one)
	if o := mustApply(t, r.one, l, 1); !o.Started() || o.Bucket.Version != 2 {
		t.Errorf("got %+v", o)
	}
}

// A call that waits in the inbox returns the answer of another process, and the next one removes it.
func TestAnsweredByAnother(t *testing.T) {
	t.Parallel()
	r, l := newRivals(t), hourly()
	mustApply(t, r.one, l, 1)
	lost := New(r.one.buckets.Database(), Options{}).WithClock(func() time.Time {
		mustApply(t, r.other, l, 2) // between each read and its swap
		return r.now
	})
	stayBusy(lost)
	o := mustApply(t, lost, l, 1)
	if !o.Started() {
		t.Errorf("got %+v", o)
	}
	discarded := lost.memory.Get("hourly").discarded
	if len(discarded) != 1 || len(mustRead(t, r.one).Answers) != 1 {
		t.Fatalf("discarded %v of %v", discarded, mustRead(t, r.one).Answers)
	}
	mustPush(t, lost, entry{ID: 11})
	if left := mustRead(t, r.one).Answers; len(left) != 0 || len(lost.memory.Get("hourly").discarded) != 0 {
		t.Errorf("answers %v are left", left)
	}
}

// An entry can be taken back only until it is answered. Where its answer is gone, the requests may have been applied.
func TestWithdraw(t *testing.T) {
	t.Parallel()
	r, l := newRivals(t), hourly()
	mustApply(t, r.one, l, 1)
	mustPush(t, r.one, entry{ID: 11, Limit: fingerprint(bucket.Rules(l)), Requests: startOf(1)})
	if err := r.one.withdraw(t.Context(), "hourly", 11); !errors.Is(err, bucket.ErrContended) {
		t.Errorf("got %v", err)
	}
	if err := r.one.withdraw(t.Context(), "hourly", 11); !errors.Is(err, errLost) {
		t.Errorf("twice: %v", err)
	}
	if b := mustApply(t, r.other, l, 1).Bucket; b.Version != 2 {
		t.Errorf("version %d: the request that was taken back was answered", b.Version)
	}
	rude := New(r.one.buckets.Database(), Options{}).WithClock(func() time.Time {
		_, err := r.one.buckets.UpdateByID(context.WithoutCancel(t.Context()), "hourly", bson.D{
			to("$set", bson.D{to(fieldTag, newTag()), to(fieldInbox, bson.A{})}),
		})
		if err != nil {
			t.Error(err)
		}
		return r.now
	})
	stayBusy(rude)
	_, err := bucket.Apply(t.Context(), rude, bucket.Rules(l), "", startOf(1))
	var u *bucket.UnavailableError
	if !errors.As(err, &u) || u.Applied != bucket.AppliedMaybe || !errors.Is(err, bucket.ErrBucket) {
		t.Errorf("without an answer: %v", err)
	}
}
