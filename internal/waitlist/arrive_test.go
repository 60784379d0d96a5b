package waitlist_test

import (
	"testing"
	"time"

	"github.com/headway-go/headway/internal/waitlist"
)

// comes lets tasks arrive that will wait for the bucket "openai".
func (f fixture) comes(ids ...string) {
	f.t.Helper()
	var all []waitlist.Arrival
	for _, id := range ids {
		all = append(all, waitlist.Arrival{Task: task(id), Wants: []waitlist.Entry{entry(id)}, Joins: true})
	}
	found, err := f.Arrive(f.t.Context(), all)
	f.check(err)
	for i, a := range found {
		if a.State != waitlist.StateNew || len(a.Held) > 0 {
			f.t.Errorf("%s is in a waitlist: %+v", ids[i], a)
		}
	}
}

// Tasks wait in the order in which they arrived, in whatever order they join. A task that starts at once leaves no
// record.
func TestTasksWaitInTheOrderOfTheirArrival(t *testing.T) {
	t.Parallel()
	for name, before := range map[string][]string{"idle": nil, "busy": {"z"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, f fixture) {
				t.Helper()
				if len(before) > 0 {
					f.join(entries(before...)...)
				}
				f.comes("a", "b", "c", "d")
				f.comes("e", "c", "b", "f")
				same(t, "again", waitlist.Arrived{Waiting: []int{len(before)}}, f.arrive("b", "openai"))
				f.join(entries("g", "f", "c")...)
				f.join(entries("d", "e", "b", "h")...)
				same(t, "order", append(before, "b", "c", "d", "e", "f", "g", "h"), ids(f.due().Heads, waiting))
				if f.server != nil {
					f.pass(2 * time.Minute)
					same(t, "record without a wait", false, f.server.Exists("headway:{wait}:task:default/a"))
				}
			})
		})
	}
}

// Workers hold tasks of a backlog, and other tasks of it are sorted. Each task waits in the order of its arrival,
// whichever bucket answers first: if it arrived before another task waited, and if it joins after the sorted ones.
func TestDeliveredTasksKeepTheirPlaces(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f fixture) {
		t.Helper()
		delivered := func(ids ...string) (all []waitlist.Entry) {
			t.Helper()
			for _, id := range ids {
				all = append(all, entry(id))
			}
			arrivals := make([]waitlist.Arrival, len(all))
			for i, e := range all {
				arrivals[i] = waitlist.Arrival{Task: e.Task, Wants: []waitlist.Entry{e}}
			}
			found, err := f.Arrive(t.Context(), arrivals)
			f.check(err)
			for i, a := range found {
				all[i].Arrived = a.At
			}
			if f.server != nil {
				f.pass(time.Second)
			}
			return all
		}
		first := delivered("j", "i")
		second := delivered("h", "g")
		f.comes("f", "e", "d") // sorted: f was taken by a worker and did not arrive yet
		third := delivered("f", "c")
		f.join(third[1], second[1]) // c, g
		f.join(entries("e", "d")...)
		fourth := delivered("b")
		f.join(fourth[0], third[0], second[0]) // b, f, h
		refused := func(id string) {
			e := entry(id)
			e.Front = true
			f.join(e)
		}
		refused("y")
		f.join(first[1], first[0]) // i, j
		if f.server != nil {
			f.pass(time.Second)
		}
		refused("x")
		want := []string{"y", "x", "j", "i", "h", "g", "f", "e", "d", "c", "b"}
		same(t, "order", want, ids(f.due().Heads, waiting))
	})
}

// A task with several buckets gets its tag in the first bucket that would make it wait.
func TestArrivalsOfSeveralBuckets(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f fixture) {
		t.Helper()
		in := func(bucket, id string) waitlist.Entry {
			e := entry(id)
			e.Bucket = bucket
			return e
		}
		f.join(in("openai", "z"))
		all := []waitlist.Arrival{
			{Task: task("a"), Wants: []waitlist.Entry{in("tenant", "a"), in("openai", "a")}},
			{Task: task("b"), Wants: []waitlist.Entry{in("tenant", "b"), in("other", "b")}, Joins: true},
		}
		_, err := f.Arrive(t.Context(), all)
		f.check(err)
		f.arrive("c", "none", "tenant") // no task waits: it may start at once
		f.join(in("openai", "later"), in("tenant", "later too"), in("openai", "a"), in("tenant", "b"))
		f.join(in("none", "first"), in("none", "c"))
		look := f.look()
		order := map[string][]string{}
		for _, due := range look.Due {
			order[due.Bucket] = ids(due.Heads, waiting)
		}
		want := map[string][]string{"openai": {"z", "a", "later"}, "tenant": {"b", "later too"}, "none": {"first", "c"}}
		same(t, "order", want, order)
	})
}
