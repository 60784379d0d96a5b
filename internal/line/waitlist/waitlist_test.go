package waitlist_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/internal/line/waitlist"
)

func TestATaskGoesThroughTheWaitlist(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f fixture) {
		t.Helper()
		same(t, "at first", waitlist.Arrived{Waiting: []int{0}}, f.arrive("a", "openai"))
		a := entry("a")
		a.Info, a.Urgent, a.Reserved = []byte(`{"why":"rate"}`), true, true
		a.Tokens = map[string]float64{"requests": 1, "tokens": 0.1}
		f.join(a, entry("b"))
		held := []waitlist.Held{{Bucket: "openai", Reserved: true}}
		want := waitlist.Arrived{State: waitlist.StateWaiting, Bucket: "openai", Held: held, Waiting: []int{0, 2}}
		want.Info = a.Info
		same(t, "joined", want, f.arrive("a", "other", "openai"))

		look := f.look()
		head := waitlist.Waiting{Task: task("a"), Tokens: a.Tokens, Urgent: true, Reserved: true}
		next := waitlist.Waiting{Task: task("b"), Tokens: map[string]float64{"requests": 1}}
		due := waitlist.Due{Bucket: "openai", Planned: look.Due[0].Planned, Heads: []waitlist.Waiting{head, next}}
		all := waitlist.Look{Now: look.Now, OnDuty: true, TookOver: true, Rest: 5 * time.Second, Due: []waitlist.Due{due}}
		same(t, "look", all, look)
		same(t, "promoted", []string{"a"}, f.promote(look.Due[0], "a", "stranger"))
		same(t, "state", waitlist.StatePromoted, f.arrive("a").State)
		woken, err := f.AllPromoted(t.Context())
		f.check(err)
		same(t, "all promoted", []string{"a"}, idsOf(woken))

		f.report(waitlist.Answer{Bucket: "openai"}, "a")
		same(t, "begun", waitlist.Arrived{Waiting: []int{1}}, f.arrive("a", "openai"))
		f.report(waitlist.Answer{Bucket: "openai"}, "b")
		l := f.list("openai")
		same(t, "empty", waitlist.List{Bucket: "openai", Now: l.Now, Offset: l.Offset}, l)
		same(t, "due", 0, len(f.look().Due))
		if n := f.client.Exists(t.Context(), "headway:{wait}:index").Val(); n != 0 {
			t.Error("an idle bucket stays in the index")
		}
	})
}

func TestFlowsShareABucket(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, f fixture) {
		t.Helper()
		flow := func(flow, id string, cost float64) waitlist.Entry {
			e := entry(id)
			e.Flow, e.Cost = flow, cost
			return e
		}
		for i := range 6 {
			f.join(flow("flood", fmt.Sprint("f", i), 1))
		}
		for i := range 3 {
			f.join(flow("other", fmt.Sprint("o", i), 1), flow("heavy", fmt.Sprint("w", i), 0.5)) // twice the weight
		}
		due := f.due()
		want := []string{"f0", "o0", "w0", "w1", "f1", "o1", "w2", "f2", "o2", "f3", "f4", "f5"}
		same(t, "order", want, ids(due.Heads, waiting))
		f.promote(due, "f0", "o0", "w0", "w1", "f1", "o1", "w2", "f2", "o2", "f3")
		f.join(flow("late", "l", 1)) // behind the promoted tasks, and not behind the flood
		f.sooner()
		same(t, "late", []string{"l", "f4", "f5"}, ids(f.due().Heads, waiting))
	})
}

func TestATaskKeepsItsTag(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, f fixture) {
		t.Helper()
		f.join(entries("a", "b", "c", "d")...)
		f.promote(f.due(), "a", "b", "c")
		back := entry("b")
		back.Cost = 100
		f.join(entry("e"), back)
		f.join(back)
		same(t, "back", []string{"b", "d", "e"}, ids(f.due().Heads, waiting))
		elsewhere := entry("b")
		elsewhere.Bucket, elsewhere.Reserved = "other", true
		f.join(elsewhere)
		held := []waitlist.Held{{Bucket: "openai"}, {Bucket: "other", Reserved: true}}
		want := waitlist.Arrived{State: waitlist.StateWaiting, Bucket: "other", Held: held, Waiting: []int{2, 1}}
		same(t, "elsewhere", want, f.arrive("b", "openai", "other"))
		same(t, "tokens", map[string]float64{"requests": 4}, f.list("openai").Tokens)
		f.join(back)
		same(t, "other", 0, f.list("other").Waiting)
		f.sooner()
		same(t, "back again", []string{"b", "d", "e"}, ids(f.due().Heads, waiting))
	})
}

// A task that waits in another bucket keeps its tag while its first bucket is idle, even after Redis has deleted that
// bucket's data.
func TestATagOutlivesItsBucket(t *testing.T) {
	t.Parallel()
	for _, away := range []time.Duration{time.Second, 11 * time.Minute} {
		t.Run(away.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := inMemory(t)
				f.join(entries("a", "b", "c")...)
				f.promote(f.due(), "a", "b")
				elsewhere := entry("c")
				elsewhere.Bucket = "other"
				f.join(elsewhere)
				f.report(waitlist.Answer{Bucket: "openai"}, "a", "b")
				f.pass(away)
				same(t, "kept", away < time.Minute, slices.Contains(f.keys(), "headway:{wait}:meta:openai"))
				f.join(entries("d", "e", "c", "f")...)
				same(t, "order", "c", ids(f.due().Heads, waiting)[0])
			})
		})
	}
}

func TestPausedQueuesArePassedOver(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f fixture) {
		t.Helper()
		slow := entry("a")
		slow.Queue = "slow/50%"
		f.join(slow, entry("b"))
		due := f.due("slow/50%")
		same(t, "heads", []string{"b"}, ids(due.Heads, waiting))
		same(t, "more", false, due.More)
		f.sooner()
		due = f.due("default", "default", "unknown")
		same(t, "heads", []waitlist.Task{slow.Task}, []waitlist.Task{due.Heads[0].Task})
		same(t, "one", 1, len(due.Heads))
	})
}

func TestHeadsAreLimited(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, f fixture) {
		t.Helper()
		f.join(entries("a", "b", "c", "d")...)
		few := f.duty("me")
		few.Heads, few.Promoted = 2, 1
		look, err := f.Look(t.Context(), few, nil)
		f.check(err)
		same(t, "heads", []string{"a", "b"}, ids(look.Due[0].Heads, waiting))
		same(t, "more", true, look.Due[0].More)
		f.promote(look.Due[0], "a", "b")
		f.sooner()
		look, err = f.Look(t.Context(), few, nil)
		f.check(err)
		same(t, "promoted", []string{"a"}, ids(look.Due[0].Promoted, waiting))
		same(t, "count", 2, look.Due[0].PromotedCount)
		same(t, "more", false, look.Due[0].More)
	})
}

// Two buckets may have different numbers of heads in one look, beside a paused queue.
func TestHeadsOfABucket(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f fixture) {
		t.Helper()
		all := entries("a", "b", "c", "d")
		for i := range 4 {
			other := entry("o" + strconv.Itoa(i))
			other.Bucket = "other"
			all = append(all, other)
		}
		f.join(all...)
		some := f.duty("me")
		some.Few, some.Some = 1, map[string]int{"other": 3, "unknown": 5}
		look, err := f.Look(t.Context(), some, []string{"paused"})
		f.check(err)
		got := map[string]int{}
		for _, due := range look.Due {
			got[due.Bucket] = len(due.Heads)
			same(t, "more", true, due.More)
		}
		same(t, "heads", map[string]int{"openai": 1, "other": 3}, got)
	})
}

// One look returns a few of many due buckets, and the next look follows at once.
func TestALookIsLimited(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f fixture) {
		t.Helper()
		var all []waitlist.Entry
		for i := range 100 {
			e := entry(strconv.Itoa(i))
			e.Bucket = fmt.Sprint("b", i)
			all = append(all, e)
		}
		f.join(all...)
		look := f.look()
		same(t, "due", 64, len(look.Due))
		same(t, "rest", time.Duration(0), look.Rest)
		same(t, "the others", 36, len(f.look().Due))
		lists, more, err := f.Lists(t.Context(), "b1", 100)
		f.check(err)
		same(t, "lists", 11, len(lists))
		same(t, "more", false, more)
		_, more, err = f.Lists(t.Context(), "", 99)
		f.check(err)
		same(t, "more", true, more)
	})
}
