package waitlist_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/internal/line/class"
	"github.com/headway-go/headway/internal/line/waitlist"
)

func TestOneDispatcherIsOnDuty(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := inMemory(t)
		f.join(entry("a"))
		due := f.due()
		other := func() waitlist.Look {
			t.Helper()
			look, err := f.Look(t.Context(), duty("other"), nil)
			f.check(err)
			return look
		}
		plans := []waitlist.Plan{{Bucket: "openai", Planned: due.Planned, Promote: tasks("a")}}
		look := other()
		same(t, "second", waitlist.Look{Now: look.Now, Rest: 6 * time.Second}, look)
		promoted, onDuty, err := f.Promote(t.Context(), "other", plans)
		f.check(err)
		if onDuty || len(promoted) > 0 {
			t.Errorf("a process that is not on duty promoted %v", promoted)
		}
		f.check(f.Resign(t.Context(), "other"))
		same(t, "still on duty", false, other().OnDuty)
		f.pass(5 * time.Second)
		same(t, "renewed", false, f.look().TookOver)
		f.pass(6*time.Second + time.Microsecond)

		look = other()
		same(t, "took over", true, look.OnDuty && look.TookOver)
		same(t, "due", []string{"a"}, ids(look.Due[0].Heads, waiting))
		_, onDuty, err = f.Promote(t.Context(), "me", plans)
		f.check(err)
		same(t, "the first one is on duty", false, onDuty)
		same(t, "state", waitlist.StateWaiting, f.arrive("a").State)
		f.check(f.Resign(t.Context(), "other"))
		same(t, "after the end", true, f.look().TookOver)
	})
}

// The dispatcher may die after each of its calls: the next one finds the bucket due, and the promoted task goes back.
func TestNothingIsLostWithTheDispatcher(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := inMemory(t)
		f.join(entries("a", "b", "c")...)
		f.look()
		f.pass(duty("me").Lease)
		due := f.due()
		same(t, "after a look", []string{"a", "b", "c"}, ids(due.Heads, waiting))
		f.promote(due, "b", "a")
		all, err := f.AllPromoted(t.Context())
		f.check(err)
		same(t, "in the order of promotion", []string{"b", "a"}, idsOf(all))
		same(t, "due", 0, len(f.look().Due))
		f.pass(waitlist.BeginWithin + 2*time.Microsecond)
		due = f.due()
		same(t, "not begun", []string{"a", "b", "c"}, ids(due.Heads, waiting))
		same(t, "promoted", 0, due.PromotedCount)
		// The last tasks are promoted, and the plan of zero means that no task waits.
		plan := waitlist.Plan{Bucket: "openai", Planned: due.Planned, Promote: tasks("a", "b", "c")}
		_, _, err = f.Promote(t.Context(), "me", []waitlist.Plan{plan})
		f.check(err)
		f.pass(waitlist.BeginWithin + 2*time.Microsecond)
		same(t, "all come back", []string{"a", "b", "c"}, ids(f.due().Heads, waiting))
	})
}

// A change between a look and its Promote takes effect, however long the dispatcher takes.
func TestAChangeAfterTheLookCounts(t *testing.T) {
	t.Parallel()
	for _, late := range []time.Duration{0, 3 * time.Second} {
		t.Run(late.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := inMemory(t)
				f.join(entry("a"))
				due := f.due()
				f.pass(late)
				slow := entry("b")
				slow.Queue = "slow"
				f.join(slow)
				f.promote(due, "a")
				same(t, "heads", []string{"b"}, ids(f.due().Heads, waiting))
			})
		})
	}
}

func TestALookIsPlanned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := inMemory(t)
		f.join(entries("a", "b")...)
		f.promote(f.due(), "a")
		f.join(entry("c")) // it is not the first task, so the plan stays
		same(t, "planned", 0, len(f.look().Due))
		next := f.list("openai")
		same(t, "not later than the retry", waitlist.BeginWithin, next.Next.Sub(next.Now))
		f.report(waitlist.Answer{Bucket: "openai"}, "a")
		f.sooner()
		due := f.due()
		f.promote(due)
		f.pass(59 * time.Second)
		look := f.look()
		same(t, "rest", time.Second, look.Rest)
		same(t, "none is due", 0, len(look.Due))
		f.pass(time.Second)
		f.due()
	})
}

func TestAnAnswerIsKeptUnlessItIsOlder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := inMemory(t)
		now, err := f.client.Time(t.Context()).Result()
		f.check(err)
		answer := func(generation, version int64, ahead time.Duration) waitlist.Answer {
			text := []byte(fmt.Sprint(generation, ".", version))
			return waitlist.Answer{
				Bucket: "openai", Generation: generation, Version: version, Store: now.Add(ahead), State: text,
			}
		}
		f.report(answer(9, 9, 0))
		same(t, "a bucket without a waitlist", 0, len(f.list("openai").State))
		f.join(entry("a"))
		f.due()
		for _, a := range []waitlist.Answer{answer(2, 10, time.Hour), answer(2, 9, 0), answer(1, 11, 0)} {
			f.report(a)
			l := f.list("openai")
			same(t, "state", "2.10", string(l.State))
			same(t, "offset", time.Hour, l.Offset)
		}
		f.report(answer(3, 1, -time.Second))
		same(t, "no look", 0, len(f.look().Due))
		f.sooner() // an old answer
		due := f.due()
		same(t, "state", "3.1", string(due.State))
		same(t, "offset", -time.Second, due.Offset)
	})
}

// fail notes a bucket whose store is away, for a pause of d.
func (f fixture) fail(bucket string, d time.Duration) {
	f.t.Helper()
	_, _, err := f.Fail(f.t.Context(), bucket, waitlist.Failure{Away: true, Shortest: d, Longest: d})
	f.check(err)
}

func TestAFailedBucketRests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := inMemory(t)
		fail := func(d time.Duration) {
			t.Helper()
			f.fail("openai", d)
		}
		fail(10 * time.Second)
		fail(time.Second)
		f.join(entry("a"))
		look := f.look()
		same(t, "due", 0, len(look.Due))
		f.pass(9 * time.Second)
		same(t, "the longer pause counts", 0, len(f.look().Due))
		f.pass(time.Second)
		due := f.due()
		same(t, "failed", true, due.Failed)
		f.promote(due, "a")
		fail(time.Minute) // the failure ends when the dispatcher asks again
		f.join(entry("a"))
		same(t, "due", 0, len(f.look().Due))
		f.report(waitlist.Answer{Bucket: "openai", State: []byte("s")})
		due = f.due()
		same(t, "after an answer", false, due.Failed)
		f.promote(due)

		fail(time.Minute)
		other := entry("b")
		other.Bucket = "other"
		f.join(other)
		f.fail("other", time.Hour)
		same(t, "due", 0, len(f.look().Due))
		f.check(f.Recover(t.Context()))
		look = f.look()
		same(t, "recovered", 2, len(look.Due))
		same(t, "failed", false, look.Due[0].Failed || look.Due[1].Failed)
		same(t, "failed until", time.Time{}, f.list("other").FailedUntil)
	})
}

// The pauses of a bucket that fails alone grow with the duration of the fault. The end of an outage does not end
// them.
func TestAFaultyBucketRests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := inMemory(t)
		fault := func(begins bool, want time.Duration) {
			t.Helper()
			pause, began, err := f.Fail(t.Context(), "openai", waitlist.Failure{
				Shortest: time.Second, Longest: 10 * time.Second, Random: .5,
			})
			f.check(err)
			same(t, "pause", want, pause)
			same(t, "began", begins, began)
		}
		f.join(entry("a"))
		f.fail("openai", time.Millisecond)
		fault(true, 1500*time.Millisecond)
		fault(false, 1500*time.Millisecond)
		f.check(f.Recover(t.Context()))
		same(t, "due after an outage", 0, len(f.look().Due))
		same(t, "faulty", true, f.list("openai").Faulty)
		f.pass(4 * time.Second)
		same(t, "failed", true, f.due().Failed)
		fault(false, 3*time.Second)
		f.pass(time.Minute)
		fault(false, 15*time.Second)
		f.report(waitlist.Answer{Bucket: "openai", State: []byte("s")})
		same(t, "after an answer", false, f.due().Failed)
		same(t, "faulty", false, f.list("openai").Faulty)
		fault(true, 1500*time.Millisecond)
	})
}

// The pauses of a store that is down grow too, until it is back, or until half a minute without a failure.
func TestAnOutageLasts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := inMemory(t)
		fail := func(want time.Duration) {
			t.Helper()
			pause, _, err := f.Fail(t.Context(), "openai", waitlist.Failure{
				Away: true, Shortest: time.Second, Longest: 10 * time.Second, Random: .5,
			})
			f.check(err)
			same(t, "pause", want, pause)
		}
		f.join(entry("a"))
		fail(1500 * time.Millisecond)
		f.pass(4 * time.Second)
		fail(3 * time.Second)
		f.check(f.Recover(t.Context()))
		fail(1500 * time.Millisecond)
		f.pass(20 * time.Second)
		fail(15 * time.Second)
		f.pass(50 * time.Second)
		fail(1500 * time.Millisecond)
	})
}

// A store that fails for an hour leaves no keys for buckets in which no task waits.
func TestFailuresAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := inMemory(t)
		for i := range 300 {
			f.fail(fmt.Sprint("b", i), time.Second)
		}
		f.check(f.Recover(t.Context()))
		f.pass(11 * time.Minute)
		same(t, "keys", []string{}, f.keys())
		f.fail("old", time.Second)
		f.pass(11 * time.Minute)
		f.fail("new", time.Second)
		same(t, "failed", int64(1), f.client.ZCard(t.Context(), "headway:{wait}:failed").Val())
	})
}

func TestLeaveRemovesEveryTrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := inMemory(t)
		f.join(entries("a", "b", "c")...)
		reserved := entry("a")
		reserved.Bucket, reserved.Reserved = "other", true
		f.join(reserved)
		for _, due := range f.look().Due {
			f.promote(due, "b")
		}
		left, err := f.Leave(t.Context(), tasks("a", "b", "stranger", "c"))
		f.check(err)
		same(t, "left", []waitlist.Arrived{
			{
				State: waitlist.StateWaiting, Bucket: "other",
				Held: []waitlist.Held{{Bucket: "openai"}, {Bucket: "other", Reserved: true}},
			},
			{State: waitlist.StatePromoted, Bucket: "openai", Held: []waitlist.Held{{Bucket: "openai"}}},
			{},
			{State: waitlist.StateWaiting, Bucket: "openai", Held: []waitlist.Held{{Bucket: "openai"}}},
		}, left)
		f.check(f.Resign(t.Context(), "me"))
		same(t, "keys", []string{"headway:{wait}:meta:openai", "headway:{wait}:meta:other"}, f.keys())
		f.pass(11 * time.Minute)
		same(t, "keys", []string{}, f.keys())
	})
}

// The task behind a deleted one may be able to start.
func TestALookFollowsALeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := inMemory(t)
		f.join(entries("a", "b")...)
		f.promote(f.due())
		_, err := f.Leave(t.Context(), tasks("a"))
		f.check(err)
		same(t, "heads", []string{"b"}, ids(f.due().Heads, waiting))
	})
}

// Tasks that asynq lost expire, and do not delay the tasks behind them.
func TestRecordsOfLostTasksExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := inMemory(t)
		long := entry("long")
		long.Keep = 48 * time.Hour
		f.join(entries("lost", "promoted")...)
		f.join(long)
		few := duty("me")
		few.Heads = 1
		look, err := f.Look(t.Context(), few, nil)
		f.check(err)
		f.promote(look.Due[0], "promoted")
		f.pass(25 * time.Hour)
		look, err = f.Look(t.Context(), few, nil)
		f.check(err)
		same(t, "heads", 0, len(look.Due[0].Heads))
		same(t, "rest", time.Duration(0), look.Rest)
		f.promote(look.Due[0])
		look, err = f.Look(t.Context(), few, nil)
		f.check(err)
		same(t, "heads", []string{"long"}, ids(look.Due[0].Heads, waiting))
		same(t, "promoted", 0, look.Due[0].PromotedCount)
		f.report(waitlist.Answer{Bucket: "openai"}, "long")
		f.join(entry("next"))
		same(t, "tokens", map[string]float64{"requests": 1}, f.list("openai").Tokens)
	})
}

// Several dispatchers that all believe to be on duty promote each task once, in order of the tags.
func TestDispatchersAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := inMemory(t)
		const each, dispatchers = 40, 3
		var names []string
		for i := range each {
			names = append(names, fmt.Sprintf("%04d", i))
		}
		f.join(entries(names...)...)
		var got []string
		var unduly atomic.Int64
		var all sync.WaitGroup
		turn := make(chan struct{}, 1) // keeps the answers in order
		for d := range dispatchers {
			client, wire := f.server.Apart(t)
			wire.Slow(time.Duration(d+1) * 700 * time.Microsecond)
			f.check(client.Ping(t.Context()).Err())
			list := waitlist.New(client)
			all.Go(func() {
				f.pass(time.Millisecond) // the network delays nothing at the moment of a dial
				random := rand.New(rand.NewPCG(0, uint64(d)))
				me := duty(strconv.Itoa(d))
				me.Rest, me.Lease, me.Heads = 0, 5*time.Millisecond, 5 // each duty ends soon
				for more := true; more; {
					look, err := list.Look(t.Context(), me, nil)
					if err != nil {
						t.Error(err)
						return
					}
					for _, due := range look.Due {
						plan := waitlist.Plan{Bucket: due.Bucket, Planned: due.Planned, Next: time.Microsecond}
						for _, h := range due.Heads {
							plan.Promote = append(plan.Promote, h.Task)
						}
						f.pass(time.Duration(random.IntN(8)) * time.Millisecond) // its duty may end
						turn <- struct{}{}
						promoted, onDuty, err := list.Promote(t.Context(), me.ID, []waitlist.Plan{plan})
						got = append(got, idsOf(promoted)...)
						<-turn
						if err != nil {
							t.Error(err)
							return
						}
						if !onDuty {
							unduly.Add(1)
						}
					}
					turn <- struct{}{}
					more = len(got) < each
					<-turn
				}
			})
		}
		all.Wait()
		same(t, "promoted", names, got)
		same(t, "count", each, f.list("openai").Promoted)
		if unduly.Load() == 0 {
			t.Error("all dispatchers were on duty when they promoted")
		}
	})
}

// All tasks of a flow are cancelled, and the flow begins again: its new tasks share the bucket with another flow, as if
// there had been no others.
func TestCancelledTasksOfAFlowDoNotDelayItsNextOnes(t *testing.T) {
	t.Parallel()
	for _, flow := range []string{"tenant", ""} {
		onBoth(t, func(t *testing.T, f fixture) {
			t.Helper()
			join := func(flow string, ids ...string) {
				for _, id := range ids {
					f.join(waitlist.Entry{Task: task(id), Bucket: "openai", Turns: class.Turns{Flow: flow, Cost: 1}})
				}
			}
			join("other", "o1", "o2", "o3")
			wrong := tasks("w1", "w2", "w3", "w4", "w5")
			for _, one := range wrong {
				join(flow, one.ID)
			}
			_, err := f.Leave(t.Context(), wrong)
			f.check(err)
			join(flow, "n1", "n2")
			f.sooner()
			same(t, "order", tasks("n1", "o1", "n2", "o2", "o3"), tasksOf(f.due().Heads))
		})
	}
}
