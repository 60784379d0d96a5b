package waitlist_test

import (
	"testing"
	"time"

	"github.com/headway-go/headway/internal/waitlist"
)

// A delivered task has the number of waiting tasks of each of its buckets, and leaves no record.
func TestArrive(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f fixture) {
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

// A task that had started goes before all that wait, and behind earlier ones that had started.
func TestFrontIsInTheOrderOfJoining(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f fixture) {
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
