package waitlist_test

import (
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/internal/line/waitlist"
)

func (f fixture) setTimers(timers ...waitlist.Timer) {
	f.t.Helper()
	f.check(f.SetTimers(f.t.Context(), timers))
}

func TestTimersRingOnTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := inMemory(t)
		f.look()
		f.setTimers(waitlist.Timer{Task: task("a"), At: 1500 * time.Millisecond},
			waitlist.Timer{Task: task("b"), StartBy: 2 * time.Second}, waitlist.Timer{Task: task("now"), At: -time.Second})
		same(t, "at once", []waitlist.Rung{{Task: task("now")}}, f.look().Rung)
		same(t, "rest", 1500*time.Millisecond, f.look().Rest)
		f.pass(1500*time.Millisecond - time.Microsecond)
		same(t, "too early", 0, len(f.look().Rung))
		f.pass(time.Microsecond)
		look := f.look()
		same(t, "on time", []waitlist.Rung{{Task: task("a")}}, look.Rung)
		same(t, "rest", 500*time.Millisecond, look.Rest)
		f.pass(time.Second)
		same(t, "late", []waitlist.Rung{{Task: task("b")}}, f.look().Rung)
		same(t, "once", 0, len(f.look().Rung))
	})
}

// Only a look of the process on duty removes a due timer.
func TestTimersAreLeftToTheDispatcher(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := inMemory(t)
		f.look()
		f.setTimers(waitlist.Timer{Task: task("a"), At: time.Microsecond})
		f.pass(time.Millisecond)
		look, err := f.Look(t.Context(), duty("other"), nil)
		f.check(err)
		same(t, "not on duty", 0, len(look.Rung))
		same(t, "on duty", 1, len(f.look().Rung))
	})
}

// A task with a time is in no list before it. Then it has its place behind the tasks that wait, and before later ones.
func TestATaskWithATimeHasItsPlaceThen(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f fixture) {
		t.Helper()
		f.setTimers(waitlist.Timer{Task: task("later"), At: time.Minute})
		f.join(entry("later"))
		same(t, "alone", 0, len(f.look().Due))
		same(t, "delivered too early", waitlist.StateWaiting, f.arrive("later").State)
		f.join(entries("a", "b")...)
		same(t, "before its time", []string{"a", "b"}, ids(f.due().Heads, waiting))
		if l := f.list("openai"); l.Waiting != 2 || l.Tokens["requests"] != 2 {
			t.Errorf("the list has %+v", l)
		}
		if f.server != nil {
			f.pass(time.Minute)
		} else { // Redis has its own clock
			f.setTimers(waitlist.Timer{Task: task("later"), At: time.Microsecond})
		}
		f.look()
		f.join(entries("c")...)
		f.sooner()
		same(t, "at its time", []string{"a", "b", "later", "c"}, ids(f.due().Heads, waiting))
		if l := f.list("openai"); l.Waiting != 4 || l.Tokens["requests"] != 4 {
			t.Errorf("the list has %+v", l)
		}
	})
}

// A task with a time enters the list of a bucket whose data has expired.
func TestATaskWithATimeOutlivesItsBucket(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := inMemory(t)
		f.setTimers(waitlist.Timer{Task: task("later"), At: time.Hour})
		e := entry("later")
		e.Keep = time.Hour
		f.join(e)
		for range 59 {
			f.pass(time.Minute)
			f.look()
		}
		f.join(entries("a")...)
		f.pass(time.Minute)
		same(t, "at its time", []string{"a", "later"}, ids(f.due().Heads, waiting))
		left, err := f.Leave(t.Context(), tasks("later"))
		f.check(err)
		same(t, "left", waitlist.StateWaiting, left[0].State)
		same(t, "tokens", 1., f.list("openai").Tokens["requests"])
	})
}

// A task that had to start is returned, with whether it waits. A task that has left is not.
func TestATaskThatHadToStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := inMemory(t)
		for _, id := range []string{"waits", "promoted", "unlimited"} {
			f.setTimers(waitlist.Timer{Task: task(id), StartBy: time.Minute})
		}
		f.join(entries("waits", "promoted")...)
		f.promote(f.due(), "promoted")
		f.pass(time.Minute)
		got := map[string]bool{}
		for _, r := range f.look().Rung {
			got[r.ID] = r.Waits
		}
		want := map[string]bool{"waits": true, "promoted": false, "unlimited": false}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("rung %v, want %v", got, want)
		}
	})
}

// More timers are due than one look returns.
func TestManyTimers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := inMemory(t)
		var timers []waitlist.Timer
		for i := range 1000 {
			timers = append(timers, waitlist.Timer{Task: task(strconv.Itoa(i)), At: time.Microsecond, StartBy: time.Second})
		}
		f.setTimers(timers...)
		f.pass(time.Millisecond)
		rung := 0
		for look := f.look(); len(look.Rung) > 0; look = f.look() {
			if rung += len(look.Rung); rung < 1000 {
				same(t, "rest", time.Duration(0), look.Rest)
			}
		}
		same(t, "rung", 1000, rung)
	})
}
