package scheduler

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/reservations"
)

func mustStand(t *testing.T, l lines, id string) standing {
	t.Helper()
	s, err := l.standing(t.Context(), Task{Queue: "default", ID: id})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Until when a task waits follows the line's clock, at any speed.
func TestStandingFollowsTheClock(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l lines) {
		t.Helper()
		mustRecord(t, l, answer(1, 0), dueIn("a", time.Hour), dueIn("b", 2*time.Hour), dueIn("c", 3*time.Hour))
		near := func(what string, want time.Duration) {
			t.Helper()
			s := mustStand(t, l, "b")
			if in := s.due.Sub(s.now); !s.stands || s.waking || s.rank != 2 || s.of != 3 || (in-want).Abs() > 5*time.Second {
				t.Errorf("%s: %+v, in %v, want %v", what, s, in, want)
			}
		}
		near("as told", 2*time.Hour)
		mustMove(t, l, answer(2, 30*time.Minute))
		near("moved on", 90*time.Minute)
		mustMove(t, l, running(bucketNow(), 3, 30*time.Minute, 0.5))
		near("at half speed", 3*time.Hour)
		mustMove(t, l, running(bucketNow(), 4, 30*time.Minute, 3))
		near("at three times the speed", 30*time.Minute)
	})
}

func TestStandingOfThoseThatDoNotStand(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l lines) {
		t.Helper()
		if s := mustStand(t, l, "nobody"); s.stands || s.waking || s.line != "" || s.now.IsZero() {
			t.Errorf("nobody: %+v", s)
		}
		mustRecord(t, l, answer(1, 0), dueIn("a", -time.Second))
		before := l.client.Keys(t.Context(), "*").Val()
		if s := mustStand(t, l, "a"); !s.stands || s.due.After(s.now) {
			t.Errorf("due: %+v", s)
		}
		same(t, "keys", len(before), len(l.client.Keys(t.Context(), "*").Val()))
		same(t, "a look takes nobody out", []string{"a"}, mustPop(t, l))
		s := mustStand(t, l, "a")
		if s.stands || !s.waking || s.kept.Bucket != "openai" {
			t.Errorf("being woken: %+v", s)
		}
		e := newExplanation(Task{Queue: "default", ID: "a"}, &asynq.TaskInfo{State: asynq.TaskStateRetry}, s, queueState{workers: 1})
		same(t, "reason", ReasonWaking, e.Reason)
		same(t, "text", "Task a is on its way to its queue: its time has come in limit openai.", e.Summary())
		same(t, "not taken", []string(nil), mustPop(t, l, attended{task: Task{Queue: "default", ID: "a"}}))
		if s := mustStand(t, l, "a"); s.waking || s.line == "" {
			t.Errorf("woken: %+v", s)
		}
	})
}

// A task with several charges stands in one line, and keeps places elsewhere.
func TestStandingWithOtherPlaces(t *testing.T) {
	t.Parallel()
	l, server := onMini(t)
	mustRecord(t, l, answer(1, 0), dueIn("a", time.Hour))
	server.HSet(root+"place:default/a", "place", `{"state":"reserved","due":"2026-01-01T00:00:00Z","gen":7,"bucket":"tenant:acme","since":"2026-01-01T00:00:00Z",
		"others":[{"limit":"openai","key":"k","shard":2,"place":{"state":"ticket","due":"2026-01-01T00:00:00Z","gen":9}},{"bucket":"x","place":{"state":"late","due":"2026-01-01T00:00:00Z"}}]}`)
	s := mustStand(t, l, "a")
	if len(s.others) != 2 || s.others[0].Name() != "openai#2:k" || s.others[0].Place.State != reservations.StateTicket || s.others[1].Name() != "x" {
		t.Errorf("%+v", s.others)
	}
	same(t, "bucket", "tenant:acme", s.kept.Bucket)
	server.HSet(root+"place:default/a", "place", "{broken")
	if _, err := l.standing(t.Context(), Task{Queue: "default", ID: "a"}); err == nil {
		t.Error("a broken place: no error")
	}
	server.SetError("LOADING busy")
	if _, err := l.standing(t.Context(), Task{Queue: "default", ID: "a"}); err == nil {
		t.Error("no redis: no error")
	}
	if _, err := l.describe(t.Context(), []string{"x"}); err == nil {
		t.Error("no redis: no error")
	}
	if _, _, err := l.names(t.Context(), "", 1); err == nil {
		t.Error("no redis: no error")
	}
}

// What can't be brought about by a fleet at hand.
func TestReasons(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	deferred := (&DeferredError{Bucket: "openai", State: reservations.StateReserved, Delay: time.Second, Until: now}).Error()
	unlimited := (&DeferredError{Refusal: errors.New("503"), Delay: time.Second, Until: now}).Error()
	place := standing{now: now, kept: keptPlace{Bucket: "openai", Place: reservations.Place{State: reservations.StateAgain}, Since: now}, line: "openai@7", stands: true, rank: 3, of: 4, due: now.Add(time.Minute)}
	for _, c := range []struct {
		name   string
		info   asynq.TaskInfo
		place  standing
		queue  queueState
		reason Reason
		text   string
	}{
		{"orphaned while it went back", asynq.TaskInfo{State: asynq.TaskStateActive}, place, queueState{workers: 1, lease: now.Add(-10 * time.Second)}, ReasonOrphaned, "was running on a worker that is gone: asynq puts it back in 20s to 1m20s, and another worker runs it again"},
		{"running", asynq.TaskInfo{State: asynq.TaskStateActive}, standing{now: now}, queueState{worker: "host:12", started: now.Add(-time.Minute)}, ReasonRunning, "is running since 2026-11-21T09:59:00.000Z, for 1m0s on host:12"},
		{"just sent back", asynq.TaskInfo{State: asynq.TaskStateActive}, place, queueState{workers: 1}, ReasonLine, "waits for limit openai: the plan was full again, and it asks for a time once more in 1m0s, as number 3 of 4"},
		{"archived while it waited", asynq.TaskInfo{State: asynq.TaskStateArchived, LastErr: deferred}, place, queueState{workers: 1}, ReasonLine, "waits for limit openai: the plan was full again, and it asks for a time once more in 1m0s, as number 3 of 4"},
		{"archived by an operator", asynq.TaskInfo{State: asynq.TaskStateArchived, MaxRetry: 2, LastErr: deferred}, place, queueState{}, ReasonArchived, "is in the archive and does not run again: " + deferred},
		{"in no line", asynq.TaskInfo{State: asynq.TaskStateRetry, LastErr: deferred, NextProcessAt: now.Add(12 * time.Second)}, standing{now: now}, queueState{workers: 2}, ReasonNet, "waits for its limit, but stands in no line: asynq delivers it in 12s"},
		{"unlimited and refused", asynq.TaskInfo{State: asynq.TaskStateRetry, LastErr: unlimited, NextProcessAt: now.Add(2 * time.Second)}, standing{now: now, refusals: 1}, queueState{workers: 2}, ReasonUpstream, "was refused by its provider, and comes back in 2s: 503"},
		{"in a group", asynq.TaskInfo{State: asynq.TaskStateAggregating}, standing{now: now}, queueState{}, ReasonGroup, "waits for others of its group"},
		{"ready, place unknown", asynq.TaskInfo{State: asynq.TaskStatePending}, standing{now: now}, queueState{before: -1, workers: 1}, ReasonReady, "is ready: a worker takes it from queue q"},
		{"ready, behind others", asynq.TaskInfo{State: asynq.TaskStatePending}, standing{now: now}, queueState{before: 2, workers: 1}, ReasonReady, "is ready: 2 tasks before it in queue q"},
	} {
		e := newExplanation(Task{Queue: "q", ID: "x"}, &c.info, c.place, c.queue)
		same(t, c.name, c.reason, e.Reason)
		same(t, c.name, "Task x "+c.text+".", e.Summary())
	}
}

func TestLinesAreListed(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l lines) {
		t.Helper()
		s := &Scheduler{lines: l}
		for i, bucket := range []string{"a:k@x", "a", "a#2:k", "ab", "b:a"} {
			m := movementOf(bucket, reservations.Outcome{At: bucketNow(), Generation: int64(i), Version: 1}, time.Now())
			for n := range i + 1 {
				e := dueIn(fmt.Sprint(bucket, n), time.Duration(n)*time.Hour)
				mustRecord(t, l, m, e)
			}
		}
		if _, _, err := l.recordOutage(t.Context(), []entry{dueIn("o", time.Hour)}); err != nil {
			t.Fatal(err)
		}
		list := func(limit string, most int) (names []string, more bool) {
			found, more, err := s.Lines(t.Context(), limit, most)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range found {
				names = append(names, fmt.Sprintf("%s|%s|%d|%s|%d|%d|%v", line.Bucket, line.Limit, line.Shard, line.Key, line.Generation, line.Waiting, line.Store))
			}
			return names, more
		}
		all, more := list("", 100)
		same(t, "all", []string{"b:a|b|0|a|4|5|false", "ab|ab|0||3|4|false", "a#2:k|a|2|k|2|3|false", "a|a|0||1|2|false", "||0||0|1|true", "a:k@x|a|0|k@x|0|1|false"}, all)
		same(t, "more", false, more)
		some, more := list("a", 100)
		same(t, "of one limit", []string{"a#2:k|a|2|k|2|3|false", "a|a|0||1|2|false", "a:k@x|a|0|k@x|0|1|false"}, some)
		same(t, "more", false, more)
		some, more = list("", 2)
		same(t, "two of them", 2, len(some))
		same(t, "more", true, more)
	})
}
