package waitlist_test

import (
	"testing"
	"time"

	"github.com/headway-go/headway/internal/line/waitlist"
)

// A delivered task has the number of waiting tasks of each of its buckets, and leaves no record.
func TestArrive(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, f fixture) {
		t.Helper()
		f.join(entries("a", "b")...)
		f.promote(f.due(), "a")
		same(t, "new", waitlist.Arrived{Waiting: []int{0, 1}}, f.arrive("c", "tenant", "openai"))
		same(t, "again", waitlist.Arrived{Waiting: []int{1}}, f.arrive("c", "openai"))
		held := []waitlist.Held{{Bucket: "openai"}}
		same(t, "promoted", waitlist.Arrived{
			State: waitlist.StatePromoted, Bucket: "openai", Held: held, Waiting: []int{1},
		}, f.arrive("a", "openai"))
		same(t, "waiting", waitlist.Arrived{
			State: waitlist.StateWaiting, Bucket: "openai", Held: held, Waiting: []int{},
		}, f.arrive("b"))
		f.sooner()
		same(t, "order", []string{"b"}, ids(f.due().Heads, waiting))
	})
}

// A task that arrives has the number of waiting tasks of the class behind which it waits, also in several queues.
func TestArriveBehindAClass(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f fixture) {
		t.Helper()
		all := entries("a", "b", "c", "d")
		all[0].Class, all[1].Class, all[1].Queue, all[2].Class = "!urgent", "!urgent", "other", "!"
		f.join(all...)
		for class, want := range map[string]int{"": 4, "!urgent": 2, "!": 1, "unknown": 0} {
			got, err := f.Arrive(t.Context(), []waitlist.Arrival{{
				Task: task("z"), Buckets: []string{"tenant", "openai"}, Classes: []string{class, class},
			}})
			if err != nil {
				t.Fatal(err)
			}
			same(t, class, []waitlist.Arrived{{Waiting: []int{0, 4}, Before: []int{0, want}}}, got)
		}
	})
}

// A task that had started goes before all that wait, and behind earlier ones that had started.
func TestFrontIsInTheOrderOfJoining(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, f fixture) {
		t.Helper()
		front := func(id string) {
			e := entry(id)
			e.Front = true
			f.join(e)
			if f.server != nil {
				f.pass(time.Second)
			}
		}
		front("d")
		f.join(entries("e", "f")...)
		front("c")
		front("b")
		front("a")
		f.promote(f.due(), "d", "c")
		front("z")
		f.sooner()
		same(t, "order", []string{"b", "a", "z", "e", "f"}, ids(f.due().Heads, waiting))
	})
}
