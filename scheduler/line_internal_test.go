package scheduler

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/testenv"
	"github.com/headway-go/headway/reservations"
)

// onBoth runs a test on miniredis and on a real server.
func onBoth(t *testing.T, test func(t *testing.T, l lines)) {
	t.Helper()
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		l, _ := onMini(t)
		test(t, l)
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		options, err := redis.ParseURL(testenv.Redis(t))
		if err != nil {
			t.Fatal(err)
		}
		client := redis.NewClient(options)
		t.Cleanup(func() { _ = client.Close() })
		test(t, newLines(client))
	})
}

func onMini(t *testing.T) (lines, *miniredis.Miniredis) {
	t.Helper()
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	return newLines(client), server
}

// bucketAhead is how far the clock of the tests' buckets is ahead of Redis's: no clock need agree with another.
const bucketAhead = 3 * time.Hour

func bucketNow() time.Time { return time.Now().Add(bucketAhead) }

func answerAt(at time.Time, version int64, shift time.Duration) movement {
	return movementOf("openai", reservations.Outcome{At: at, Generation: 7, Version: version, Shift: shift}, time.Now())
}

func answer(version int64, shift time.Duration) movement {
	return answerAt(bucketNow(), version, shift)
}

func dueIn(id string, d time.Duration) entry {
	p := reservations.Place{State: reservations.StateReserved, Due: bucketNow().Add(d), Generation: 7}
	c := reservations.Charge{Limit: "openai", Tokens: reservations.Tokens{"requests": 1}}
	return newEntry(Task{Queue: "default", ID: id}, c, p, 0, max(0, d), time.Now())
}

func mustRecord(t *testing.T, l lines, m movement, entries ...entry) (time.Duration, bool) {
	t.Helper()
	first, earlier, err := l.record(t.Context(), m, entries)
	if err != nil {
		t.Fatal(err)
	}
	return first, earlier
}

func mustMove(t *testing.T, l lines, moves ...movement) (time.Duration, bool) {
	t.Helper()
	first, earlier, err := l.move(t.Context(), moves)
	if err != nil {
		t.Fatal(err)
	}
	return first, earlier
}

// mustPop returns the IDs of the tasks that are due.
func mustPop(t *testing.T, l lines, notes ...attended) []string {
	t.Helper()
	tasks, _, err := l.pop(t.Context(), "waker", 0, 1000, notes)
	if err != nil {
		t.Fatal(err)
	}
	return ids(tasks.all())
}

func ids(tasks []Task) []string {
	var names []string
	for _, task := range tasks {
		names = append(names, task.ID)
	}
	return names
}

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func TestLineKeepsOrder(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l lines) {
		t.Helper()
		var entries []entry
		var want []string
		for i := range 300 {
			id := fmt.Sprintf("%03d", i)
			want = append(want, id)
			entries = append(entries, dueIn(id, -time.Second+time.Duration(i)*10*time.Microsecond))
		}
		rand.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
		for some := range slices.Chunk(entries, 70) {
			mustRecord(t, l, answer(1, 0), some...)
		}
		var got []string
		for range 4 {
			tasks, _, err := l.pop(t.Context(), "waker", 0, 75, nil)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, ids(tasks.all())...)
		}
		same(t, "order", want, got)
	})
}

func TestManyWakersTakeEachTaskOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l lines) {
		t.Helper()
		var entries []entry
		for i := range 400 {
			entries = append(entries, dueIn(strconv.Itoa(i), -time.Second))
		}
		mustRecord(t, l, answer(1, 0), entries...)
		var mu sync.Mutex
		taken := map[string]int{}
		var wakers sync.WaitGroup
		for w := range 8 {
			wakers.Go(func() {
				for {
					tasks, _, err := l.pop(t.Context(), strconv.Itoa(w), 0, 7, nil)
					if err != nil {
						t.Error(err)
					}
					if len(tasks.all()) == 0 {
						return
					}
					mu.Lock()
					for _, id := range ids(tasks.all()) {
						taken[id]++
					}
					mu.Unlock()
				}
			})
		}
		wakers.Wait()
		if len(taken) != 400 {
			t.Errorf("%d tasks were taken, want 400", len(taken))
		}
		for id, n := range taken {
			if n != 1 {
				t.Errorf("task %s was taken %d times", id, n)
			}
		}
	})
}

func TestShiftMovesTheWholeLine(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l lines) {
		t.Helper()
		mustRecord(t, l, answer(1, 0), dueIn("b", time.Hour+time.Second), dueIn("a", time.Hour), dueIn("c", 2*time.Hour))
		same(t, "before", []string(nil), mustPop(t, l))
		first, earlier := mustMove(t, l, answer(2, time.Hour+time.Minute))
		if !earlier || first > -58*time.Second || first < -61*time.Second {
			t.Errorf("first = %v, %v, want about -1m, true", first, earlier)
		}
		if _, earlier := mustMove(t, l, answer(3, -time.Hour)); earlier {
			t.Error("a line that is set back brings nothing forward")
		}
		same(t, "set back", []string(nil), mustPop(t, l))
		mustMove(t, l, answer(4, time.Hour+time.Minute))
		same(t, "moved on", []string{"a", "b"}, mustPop(t, l))
	})
}

func TestOlderAnswersNeverOverwriteNewerOnes(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l lines) {
		t.Helper()
		mustRecord(t, l, answer(5, 0), dueIn("a", time.Hour))
		mustMove(t, l, answer(9, 2*time.Hour))
		mustMove(t, l, answer(8, 0))
		mustRecord(t, l, answer(7, 0), dueIn("b", time.Hour))
		same(t, "due", []string{"a", "b"}, mustPop(t, l))
		// The line is empty now; what it knew of the bucket is kept a little.
		mustMove(t, l, answer(6, 0))
		mustRecord(t, l, answer(8, 0), dueIn("c", time.Hour))
		same(t, "due", []string{"c"}, mustPop(t, l))
	})
}

func TestGenerationsHaveLinesOfTheirOwn(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l lines) {
		t.Helper()
		newer := answer(1, 0)
		newer.line = "openai@8"
		mustRecord(t, l, answer(100, 0), dueIn("old", time.Hour))
		mustRecord(t, l, newer, dueIn("new", time.Hour))
		newer = answer(2, 2*time.Hour)
		newer.line = "openai@8"
		mustMove(t, l, newer)
		same(t, "new generation", []string{"new"}, mustPop(t, l))
		mustMove(t, l, answer(101, 2*time.Hour))
		same(t, "old generation", []string{"old"}, mustPop(t, l))
	})
}

func TestMovesOfManyLinesAtOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l lines) {
		t.Helper()
		var moves []movement
		for i := range 5 {
			m := answer(1, 0)
			m.line = fmt.Sprint("bucket@", i)
			mustRecord(t, l, m, dueIn(strconv.Itoa(i), time.Duration(i+1)*time.Hour))
			m = answer(2, 10*time.Hour)
			m.line = fmt.Sprint("bucket@", i)
			moves = append(moves, m)
		}
		unknown := answer(2, 0)
		unknown.line = "nobody@1"
		mustMove(t, l, append(moves, unknown)...)
		got := mustPop(t, l)
		slices.Sort(got)
		same(t, "due", []string{"0", "1", "2", "3", "4"}, got)
		if n := l.client.Exists(t.Context(), root+"clock:nobody@1").Val(); n != 0 {
			t.Error("a line that nobody stands in got a clock")
		}
	})
}

func TestRecallHandsOutThePlaceOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l lines) {
		t.Helper()
		e := dueIn("a", -time.Second)
		e.task.Queue = "strange/queue{x}%"
		mustRecord(t, l, answer(1, 0), e)
		place, err := l.recall(t.Context(), e.task)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "state", e.kept.State, place.State)
		same(t, "generation", e.kept.Generation, place.Generation)
		if !place.Due.Equal(e.kept.Due) {
			t.Errorf("due = %v, want %v to the nanosecond", place.Due, e.kept.Due)
		}
		same(t, "due after recall", []string(nil), mustPop(t, l))
		place, err = l.recall(t.Context(), e.task)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "second recall", keptPlace{}, place)
	})
}

// A task that is deferred again while its first waker has not yet noted what became of it must not be forgotten.
func TestLateNotesDoNotTakeANewEntryAway(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l lines) {
		t.Helper()
		e := dueIn("a", -time.Second)
		mustRecord(t, l, answer(1, 0), e)
		same(t, "first", []string{"a"}, mustPop(t, l))
		if _, err := l.recall(t.Context(), e.task); err != nil {
			t.Fatal(err)
		}
		mustRecord(t, l, answer(2, 0), dueIn("a", time.Hour))
		same(t, "not due", []string(nil), mustPop(t, l, attended{task: e.task}))
		mustMove(t, l, answer(3, 2*time.Hour))
		same(t, "due", []string{"a"}, mustPop(t, l))
	})
}

// Without a recall between, which an error of Redis can cause, the old entry has to give way.
func TestATaskStandsInOneLineOnly(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l lines) {
		t.Helper()
		mustRecord(t, l, answer(1, 0), dueIn("a", -time.Second))
		other := answer(1, 0)
		other.line = "anthropic@1"
		mustRecord(t, l, other, dueIn("a", time.Hour))
		same(t, "left the first line", []string(nil), mustPop(t, l))
		if _, _, err := l.recordOutage(t.Context(), []entry{dueIn("a", 0)}); err != nil {
			t.Fatal(err)
		}
		same(t, "outage line", []string{"a"}, mustPop(t, l))
	})
}

func TestALeaseThatEndsIsTakenOver(t *testing.T) {
	t.Parallel()
	l, server := onMini(t)
	start := time.Now()
	server.SetTime(start)
	mustRecord(t, l, answerAt(start, 1, 0), dueIn("a", -bucketAhead-time.Second), dueIn("b", -bucketAhead-time.Second))
	same(t, "the waker that dies", []string{"a", "b"}, mustPop(t, l))
	server.SetTime(start.Add(lease - time.Millisecond))
	same(t, "within the lease", []string(nil), mustPop(t, l))
	server.SetTime(start.Add(lease))
	same(t, "after the lease", []string{"a", "b"}, mustPop(t, l))
	done, active := attended{task: Task{"default", "a"}}, attended{task: Task{"default", "b"}, again: activePause}
	same(t, "noted", []string(nil), mustPop(t, l, done, active))
	server.SetTime(start.Add(lease + activePause))
	same(t, "again", []string{"b"}, mustPop(t, l))
	server.SetTime(start.Add(3 * lease))
	same(t, "after all", []string{"b"}, mustPop(t, l))
}

func TestOneWakerIsOnDuty(t *testing.T) {
	t.Parallel()
	l, server := onMini(t)
	start := time.Now()
	server.SetTime(start)
	rest := func(id string, most int) time.Duration {
		_, d, err := l.pop(t.Context(), id, 75*time.Millisecond, most, nil)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	same(t, "nothing waits", restMost, rest("on duty", 10))
	same(t, "the other looks later", restMost+restOthers, rest("other", 10))
	if _, _, err := l.recordOutage(t.Context(), []entry{dueIn("a", 175*time.Millisecond)}); err != nil {
		t.Fatal(err)
	}
	same(t, "early enough", 100*time.Millisecond, rest("on duty", 10))
	same(t, "the other looks later", 100*time.Millisecond+restOthers, rest("other", 10))
	rest("on duty", 0)
	same(t, "takes over", 100*time.Millisecond, rest("other", 10))
	server.SetTime(start.Add(201 * time.Millisecond))
	same(t, "took over from one that does not come", lease, max(lease, rest("on duty", 10)))
	same(t, "holder", "on duty", server.HGet(root+"waker", "id"))
}

func TestEmptyLinesLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	l, server := onMini(t)
	e := dueIn("a", -time.Second)
	mustRecord(t, l, answer(1, 0), e, dueIn("b", time.Hour))
	mustMove(t, l, answer(2, 2*time.Hour))
	same(t, "due", []string{"a", "b"}, mustPop(t, l))
	for _, id := range []string{"a", "b"} {
		if _, err := l.recall(t.Context(), Task{"default", id}); err != nil {
			t.Fatal(err)
		}
	}
	same(t, "keys", []string{root + "clock:openai@7", root + "waker"}, server.Keys())
	server.FastForward(time.Minute + time.Second)
	same(t, "keys a minute later", 0, len(server.Keys()))

	// A line that is used again within the minute keeps its clock.
	mustRecord(t, l, answer(1, 0), e)
	mustPop(t, l)
	mustRecord(t, l, answer(2, 0), dueIn("c", time.Hour))
	server.FastForward(2 * time.Minute)
	if !server.Exists(root + "clock:openai@7") {
		t.Error("the clock of a line in use has gone")
	}
	// Places of tasks that are never delivered again go as well.
	server.FastForward(26 * time.Hour)
	if server.Exists(root + "place:default/c") {
		t.Error("a place is kept forever")
	}
}

func TestOffsetKeepsTheBestSample(t *testing.T) {
	t.Parallel()
	l, server := onMini(t)
	start := time.Now().Truncate(time.Second)
	sample := func(version int64, after, offset time.Duration) time.Duration {
		t.Helper()
		server.SetTime(start.Add(after))
		mustRecord(t, l, answerAt(start.Add(after+offset), version, 0), dueIn("a", time.Hour))
		kept, err := microseconds(server.HGet(root+"clock:openai@7", "offset"))
		if err != nil {
			t.Fatal(err)
		}
		return kept
	}
	near := func(what string, want, got time.Duration) {
		t.Helper()
		if d := got - want; d < -100*time.Millisecond || d > 300*time.Millisecond { // time that the test itself took adds to a sample
			t.Errorf("%s: offset = %v, want %v", what, got, want)
		}
	}
	near("first", 5*time.Second, sample(1, 0, 5*time.Second))
	near("held up a little", 5*time.Second, sample(2, time.Second, 4500*time.Millisecond))
	near("faster", 5600*time.Millisecond, sample(3, time.Second, 5600*time.Millisecond))
	near("older answers count too", 6200*time.Millisecond, sample(1, time.Second, 6200*time.Millisecond))
	near("given up slowly", 5200*time.Millisecond, sample(4, time.Second+2000*time.Second, 5200*time.Millisecond))
	near("held up for long", 5200*time.Millisecond, sample(5, 2001*time.Second, 2*time.Second))
	near("not again", 5200*time.Millisecond, sample(6, 2001*time.Second, 5*time.Second))
	near("held up for long", 5200*time.Millisecond, sample(7, 2001*time.Second, 2*time.Second))
	near("set back indeed", 2*time.Second, sample(8, 2001*time.Second, 2*time.Second))
	near("put forward", 90*time.Second, sample(9, 2001*time.Second, 90*time.Second))
}

// The time between an answer and its way to Redis must not make the line late.
func TestAnAnswerAges(t *testing.T) {
	t.Parallel()
	l, server := onMini(t)
	now := time.Now()
	server.SetTime(now)
	m := movementOf("openai", reservations.Outcome{At: now.Add(-time.Hour), Generation: 7, Version: 1}, now.Add(-time.Hour))
	mustRecord(t, l, m, dueIn("a", 0))
	offset, err := microseconds(server.HGet(root+"clock:openai@7", "offset"))
	if err != nil || offset < 0 || offset > 10*time.Second {
		t.Errorf("offset = %v, %v, want about none", offset, err)
	}
}

func TestLinesTellRedisErrors(t *testing.T) {
	t.Parallel()
	l, server := onMini(t)
	server.SetError("LOADING busy")
	ctx := context.WithoutCancel(t.Context())
	if _, _, err := l.record(ctx, answer(1, 0), []entry{dueIn("a", 0)}); err == nil {
		t.Error("record: no error")
	}
	if _, err := l.recall(ctx, Task{"q", "a"}); err == nil {
		t.Error("recall: no error")
	}
	if _, _, err := l.pop(ctx, "w", 0, 1, nil); err == nil {
		t.Error("pop: no error")
	}
	server.SetError("")
	server.HSet(root+"place:q/a", "line", "x", "place", "{broken")
	if _, err := l.recall(ctx, Task{"q", "a"}); err == nil {
		t.Error("recall of a broken place: no error")
	}
	if _, err := server.ZAdd(root+"leased", 1, "no task"); err != nil {
		t.Fatal(err)
	}
	if got, _, err := l.pop(ctx, "w", 0, 1, nil); err != nil || len(got.all()) > 0 || server.Exists(root+"leased") {
		t.Errorf("pop of a broken entry = %v, %v; it must go, and disturb nobody", got, err)
	}
}

// recordOutage lets the entries stand in the outage line.
func (l lines) recordOutage(ctx context.Context, entries []entry) (first time.Duration, earlier bool, err error) {
	notes := make([]note, len(entries))
	for i, e := range entries {
		notes[i] = outageNote(e)
	}
	return l.recordAll(ctx, notes)
}

// recall hands out what is kept for the task, zero where there is nothing, and takes the task out of its line.
func (l lines) recall(ctx context.Context, t Task) (keptPlace, error) {
	all, err := l.recallAll(ctx, []Task{t})
	if err != nil {
		return keptPlace{}, err
	}
	return all[0].place, all[0].err
}
