package deadtasks_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/fleet/deadletter"
	"github.com/headway-go/headway/internal/line/asynqdb"
)

func TestARecordHasAllThatIsNeeded(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		t.Helper()
		s := newStore(t)
		d := died(1)
		d.Payload = []byte(`{"text":"` + strings.Repeat("all work and no play ", 1000) + `"}`)
		d.Deadline = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
		for n := 1; n <= 3; n++ {
			note(t, s, refOf(d), failedAttempt(n))
			note(t, s, refOf(d), failedAttempt(n)) // reported again
		}
		if got := only(t, s, d.ID); got.State != deadtasks.StateFailing || len(got.Attempts) != 3 || got.Payload != nil {
			t.Errorf("failing: %+v", got)
		}
		record(t, s, d)
		record(t, s, d)
		got := only(t, s, d.ID)
		var numbers []int
		for _, a := range got.Attempts {
			numbers = append(numbers, a.Number)
		}
		if diff := cmp.Diff([]int{1, 2, 3, 4}, numbers); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(d.Last, got.Attempts[3]); diff != "" {
			t.Error(diff)
		}
		if !bytes.Equal(got.Payload, d.Payload) || got.Missing != 0 {
			t.Errorf("a payload of %d bytes, %d missing", len(got.Payload), got.Missing)
		}
		if diff := cmp.Diff(d.Headers, got.Headers); diff != "" {
			t.Error(diff)
		}
		if got.State != deadtasks.StateDead || got.Type != d.Type || got.Queue != d.Queue || !got.At.Equal(d.At) ||
			got.Cause != d.Cause || got.Error != d.Last.Error ||
			got.MaxRetry != 23 || got.Timeout != d.Timeout || got.Retention != d.Retention ||
			!got.Deadline.Equal(d.Deadline) {
			t.Errorf("%+v", got)
		}
	})
}

// Only dead records never expire.
func TestWhatExpires(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		t.Helper()
		db := newDocuments(t)
		s := deadtasks.New(db, deadtasks.Options{})
		d := died(1)
		expires := func() bool {
			key := d.ID + "/default"
			found, err := db.Collection("dead").Get(t.Context(), []string{key}, false)
			if err != nil || len(found) != 1 {
				t.Fatal(len(found), err)
			}
			return !found[key].Expires.IsZero()
		}
		note(t, s, refOf(d), failedAttempt(1))
		if !expires() {
			t.Error("one that fails stays for ever")
		}
		record(t, s, d)
		if expires() {
			t.Error("a dead one expires")
		}
		recovered(t, s, refOf(d))
		if got := only(t, s, d.ID); !expires() || got.State != deadtasks.StateRecovered {
			t.Errorf("one that recovered: %+v", got)
		}
		note(t, s, refOf(d), failedAttempt(2))
		record(t, s, d)
		if expires() {
			t.Error("one that died again expires")
		}
		d.Payload, d.Headers = []byte(`{"batch":{"id":"task","line":1}}`), nil
		d.ID = "task-1-0"
		record(t, s, d)
		if !expires() {
			t.Error("a request of a batch stays for ever")
		}
	})
}

// A new task does not have the attempts of an earlier task with the same ID.
func TestAnIDThatIsUsedAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		t.Helper()
		s := newStore(t)
		d := died(1)
		note(t, s, refOf(d), failedAttempt(1))
		note(t, s, refOf(d), failedAttempt(2))
		recovered(t, s, refOf(d))
		note(t, s, refOf(d), deadletter.Attempt{Number: 1, At: time.Now(), Error: "of today"})
		if got := only(t, s, d.ID); len(got.Attempts) != 1 || got.State != deadtasks.StateFailing {
			t.Errorf("%+v", got)
		}
		record(t, s, d)
		other := died(1)
		other.Payload = []byte(`{"other":1}`)
		other.At = d.At.Add(time.Second)
		record(t, s, other)
		record(t, s, other)
		all := whole(t, s, deadtasks.Filter{ID: d.ID})
		if len(all) != 2 || string(all[0].Payload) != string(d.Payload) || string(all[1].Payload) != string(other.Payload) {
			t.Errorf("a dead task is lost: %+v", all)
		}
	})
}

// A worker that lost the task reports its attempt late.
func TestLateAttemptDoesNotReviveTheDead(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		t.Helper()
		s := newStore(t)
		d := died(1)
		record(t, s, d)
		note(t, s, refOf(d), failedAttempt(1))
		note(t, s, refOf(d), failedAttempt(3))
		if got := only(t, s, d.ID); got.State != deadtasks.StateDead || len(got.Attempts) != 3 {
			t.Errorf("%+v", got)
		}
		note(t, s, refOf(d), failedAttempt(5)) // the task was not archived after all
		if got := only(t, s, d.ID); got.State != deadtasks.StateFailing {
			t.Errorf("%+v", got)
		}
	})
}

func TestUnknown(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		t.Helper()
		s := newStore(t)
		q := newQueue(t)
		record(t, s, died(1), died(2))
		note(t, s, refOf(died(3)), failedAttempt(1))
		requeue(t, s, q, deadtasks.Filter{ID: "task-2"})
		at := died(1).At.Truncate(time.Second)
		later := time.Now().Add(time.Minute).Truncate(time.Second)
		archived := []asynqdb.Archived{
			{ID: "task-1", Queue: "default", At: at},
			{ID: "task-1", Queue: "other", At: at},
			{ID: "task-1", Queue: "default", At: later},
			{ID: "task-2", Queue: "default", At: at},
			{ID: "task-2", Queue: "default", At: later},
			{ID: "task-3", Queue: "default", At: at},
			{ID: "task-4", Queue: "default", At: at},
		}
		unknown, err := s.Recorder().Unknown(t.Context(), archived)
		if err != nil {
			t.Fatal(err)
		}
		want := []asynqdb.Archived{archived[1], archived[2], archived[4], archived[5], archived[6]}
		if diff := cmp.Diff(want, unknown); diff != "" {
			t.Error(diff)
		}
		stale := died(2)
		stale.Cause = deadletter.CauseFound
		record(t, s, stale)
		if got := only(t, s, "task-2"); got.State != deadtasks.StateRequeued {
			t.Errorf("the archive of before undid a requeue: %+v", got)
		}
	})
}

// Of two dead tasks with one ID, the record of the second is found too: else each sweep would replace its cause.
func TestUnknownOfOneID(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		t.Helper()
		s := newStore(t)
		first, second := died(1), died(1)
		second.Payload, second.At = []byte(`{"n":2}`), first.At.Add(time.Hour)
		record(t, s, first, second)
		unknown, err := s.Recorder().Unknown(t.Context(), []asynqdb.Archived{
			{ID: first.ID, Queue: "default", At: second.At}, {ID: first.ID, Queue: "other", At: second.At},
		})
		if err != nil || len(unknown) != 1 || unknown[0].Queue != "other" {
			t.Errorf("%+v, %v", unknown, err)
		}
	})
}

// Workers and sweeps write the same tasks at the same time.
func TestRecordedByMany(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		t.Helper()
		const many = 50
		s := newStore(t)
		var dead []deadletter.Task
		for n := range many {
			dead = append(dead, died(n))
		}
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				if err := s.Recorder().Record(t.Context(), dead); err != nil {
					t.Error(err)
				}
				for _, d := range dead[:5] {
					if err := s.Recorder().Failed(t.Context(), refOf(d), failedAttempt(2)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		all := whole(t, s, deadtasks.Filter{})
		if len(all) != many || len(all[0].Attempts) != 2 || len(all[many-1].Attempts) != 1 {
			t.Errorf("%d records, attempts %+v and %+v", len(all), all[0].Attempts, all[many-1].Attempts)
		}
	})
}

// 10 200 are more than asynq keeps.
func TestMoreThanAsynqKeeps(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		t.Helper()
		const many = 10_200
		s := newStore(t)
		for from := 0; from < many; from += 500 {
			var dead []deadletter.Task
			for n := from; n < min(many, from+500); n++ {
				dead = append(dead, died(n/3*3)) // so some tasks end at the same time
				dead[len(dead)-1].ID = died(n).ID
			}
			record(t, s, dead...)
		}
		seen := map[string]bool{}
		last := time.Time{}
		for task, err := range s.List(t.Context(), deadtasks.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			if seen[task.ID] || task.At.Before(last) || task.Payload != nil {
				t.Fatalf("%+v after %v", task, last)
			}
			seen[task.ID], last = true, task.At
		}
		if len(seen) != many {
			t.Errorf("%d of %d are listed", len(seen), many)
		}
		if n, err := s.Count(t.Context(), deadtasks.Filter{
			Error: "broken 1", Type: "mail", Queue: "default",
			Since: died(3000).At, Until: died(6000).At,
		}); err != nil || n != 1500 {
			t.Errorf("%d match, %v", n, err)
		}
		q := newQueue(t)
		told := 0
		r, err := s.Requeue(t.Context(), q.client, deadtasks.Filter{},
			func(r deadtasks.Report) { told = r.Requeued })
		if err != nil || r.Requeued != many || told != many {
			t.Fatalf("%+v, %v, reported %d", r, err, told)
		}
		if info, err := q.inspector.GetQueueInfo("default"); err != nil || info.Pending != many || info.Scheduled != 0 {
			t.Errorf("%+v, %v", info, err)
		}
	})
}

func TestPayloadThatDoesNotFit(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		t.Helper()
		s := newStore(t)
		q := newQueue(t)
		d := died(1)
		d.Payload = make([]byte, 15<<20)
		if _, err := rand.Read(d.Payload); err != nil {
			t.Fatal(err)
		}
		record(t, s, d)
		if got := only(t, s, d.ID); got.Missing != len(d.Payload) || got.Payload != nil {
			t.Errorf("%d missing", got.Missing)
		}
		if _, err := s.Requeue(t.Context(), q.client, deadtasks.Filter{}, nil); !errors.Is(err,
			deadtasks.ErrNoPayload) {
			t.Errorf("enqueued without a payload: %v", err)
		}
	})
}
