package works

import (
	"time"

	"github.com/headway-go/headway/bench/contest"
)

// The contestants that works and goals name.
const (
	Headway = "headway"
	Raw     = "asynq-raw"
)

// The keys of the limits.
const (
	fast = "fast"
	slow = "slow"
)

func aHundred() contest.Limit { return contest.Limit{Key: fast, Rate: 100, Burst: 10} }
func four() contest.Limit     { return contest.Limit{Key: slow, Rate: 4, Burst: 4} }

// All returns all works of fleets, in the order of the report. Quick works are smaller and cut off sooner, without
// the largest backlog.
func All(quick bool) []Work {
	list := []Work{
		burst(), slowly(), steady("steady-90", 90), steady("steady-120", 120), mixed(), overestimated(), outage(),
	}
	for _, n := range []int{1000, 10_000, 100_000} {
		if n < 100_000 || !quick {
			list = append(list, backlog(n))
		}
	}
	list = append(list, unlimited(), placing(), idle())
	if quick {
		for i := range list {
			list[i] = list[i].quick()
		}
	}
	return list
}

func burst() Work {
	return Work{
		Name: "burst", Letter: "a", About: "3000 tasks at once, 100 a second with a burst of 10, two worker processes.",
		Limits: []contest.Limit{aHundred()}, Tasks: uniform(3000, fast), Answer: 5 * time.Millisecond,
		Ideal: 30 * time.Second, Series: true,
	}
}

func slowly() Work {
	return Work{
		Name: "slow", Letter: "b", About: "100 tasks at once, 4 a second with a burst of 4.",
		Limits: []contest.Limit{four()}, Tasks: uniform(100, slow), Answer: 5 * time.Millisecond, Ideal: 24 * time.Second,
	}
}

func steady(name string, rate float64) Work {
	const seconds = 15
	n := int(rate) * seconds
	about := "A task every 11 ms for 15 s, 90 % of the limit of 100 a second."
	ideal := seconds * time.Second
	if rate > 100 {
		about, ideal = "A task every 8.3 ms for 15 s, 120 % of the limit of 100 a second; a backlog grows, and "+
			"is done in the end.", 18*time.Second
	}
	return Work{
		Name: name, Letter: "c", About: about, Limits: []contest.Limit{aHundred()}, Tasks: uniform(n, fast),
		At:     paced(n, rate),
		Answer: 5 * time.Millisecond, Ideal: ideal, For: capable(),
	}
}

func mixed() Work {
	list := uniform(1000, fast)
	for i := range list {
		if i%5 == 4 {
			list[i].Key = slow
		}
	}
	return Work{
		Name: "mixed", Letter: "m",
		About: "1000 tasks at once: every fifth on a limit of 4 a second (burst 4), the others on one of 100 a second " +
			"(burst 10); 20 handlers in all. It ends when the 800 fast ones have started.",
		Limits: []contest.Limit{aHundred(), four()}, Tasks: list, UntilKey: fast, Answer: 5 * time.Millisecond,
		Ideal: 8 * time.Second, Cut: 75 * time.Second, Others: 45 * time.Second, Series: true,
	}
}

func overestimated() Work {
	list := uniform(3000, fast)
	for i := range list {
		list[i].Reserved, list[i].Used = 30, 10
	}
	return Work{
		Name: "overestimated", Letter: "r",
		About: "3000 tasks at once that reserve 30 tokens and use 10; 1000 tokens a second with a burst of 1000. The limit " +
			"is counted in tokens really used: it is used completely only if refunds go to waiting tasks.",
		Limits: []contest.Limit{{Key: fast, Rate: 1000, Burst: 1000}}, Tasks: list, Answer: 5 * time.Millisecond,
		Ideal: 29 * time.Second,
		Cut:   90 * time.Second, Others: 60 * time.Second, For: capable(),
	}
}

func outage() Work {
	return Work{
		Name: "outage", Letter: "e",
		About: "3000 tasks at once, 100 a second with a burst of 10; after 10 s all worker processes are killed, after 10 " +
			"more new ones are started. It ends when 2960 have started: tasks of the killed processes " +
			"(20 handlers) come back when the queue counts them as dead, with asynq up to 90 s later.",
		Limits: []contest.Limit{aHundred()}, Tasks: uniform(3000, fast), Answer: 5 * time.Millisecond,
		Down: Outage{At: 10 * time.Second, For: 10 * time.Second}, Left: 40, Ideal: 41 * time.Second, Cut: 120 * time.Second,
		For: capable(), Series: true,
	}
}

func backlog(n int) Work {
	w := Work{
		Letter: "d", Changed: "2026-11-25", Backlog: true, Slots: 50,
		Limits: []contest.Limit{{Key: fast, Rate: 200, Burst: 20}}, Tasks: uniform(n, fast), Answer: 5 * time.Millisecond,
		First: 800, Ideal: 5*time.Second + time.Duration(n)*300*time.Microsecond, Cut: 4 * time.Minute,
		For: []string{Headway},
	}
	switch n {
	case 1000:
		w.Name = "backlog-1000"
		w.About = "1000 tasks are enqueued before the workers start, 200 a second with a burst of 20. The run ends after " +
			"800 starts. The cost of a task is that of each of these starts, plus its share of the enqueue."
	case 10_000:
		w.Name, w.About = "backlog-10000", "The same with 10 000 tasks."
	default:
		w.Name, w.About = "backlog-100000", "The same with 100 000 tasks."
	}
	return w
}

func unlimited() Work {
	return Work{
		Name: "unlimited", Letter: "f",
		About: "20 000 empty tasks without a limit wait when the workers start; calls are only counted.",
		Slots: 50, Tasks: uniform(20_000, ""), Backlog: true, Local: true, Ideal: 5 * time.Second,
		For: []string{Headway, Raw}, Rivals: []string{Raw},
	}
}

func placing() Work {
	return Work{
		Name: "placing", Letter: "s",
		About: "20 000 tasks with a limit of 4 a second are enqueued, and no worker runs: how fast a producer gives " +
			"each task its place in the waitlist. asynq-raw enqueues as many empty tasks without a limit, one by one: " +
			"asynq has no call for many.",
		Limits: []contest.Limit{four()}, Tasks: uniform(20_000, slow), EnqueueOnly: true, Ideal: 5 * time.Second,
		For: []string{Headway, Raw}, Rivals: []string{Raw}, Unlimited: []string{Raw},
	}
}

func idle() Work {
	return Work{
		Name: "idle", Letter: "h", About: "No tasks for 10 s, with one limit configured.",
		Limits: []contest.Limit{aHundred()},
		Idle:   10 * time.Second, Ideal: 10 * time.Second, For: append(capable(), Raw), Rivals: []string{Raw},
		Unlimited: []string{Raw},
	}
}

// capable returns the contestants that can keep a shared limit, one of each kind. The others take part in works for
// all.
func capable() []string {
	return []string{Headway, "asynq-gcra-tuned", "blocking-redis-rate", "bullmq-spaced"}
}

// quick returns a smaller work of the same kind.
func (w Work) quick() Work {
	switch {
	case w.EnqueueOnly:
		return w
	case w.Idle > 0:
		w.Idle, w.Ideal = 3*time.Second, 3*time.Second
		return w
	case w.Local, w.UntilKey != "", w.Backlog:
	case w.Down.For > 0:
		w.Down = Outage{At: 4 * time.Second, For: 4 * time.Second}
		w = w.fewer(2, 5)
	case w.At != nil:
		w = w.fewer(1, 2)
	default:
		w = w.fewer(2, 5)
	}
	if w.For != nil && !w.Local {
		w.For = []string{Headway, "blocking-redis-rate"}
	}
	w.Cut = w.Ideal + 5*time.Second
	return w
}

// fewer returns the work with only part/of of its tasks.
func (w Work) fewer(part, of int) Work {
	n := len(w.Tasks) * part / of
	w.Tasks, w.Ideal = w.Tasks[:n], w.Ideal*time.Duration(part)/time.Duration(of)
	if w.At != nil {
		w.At = w.At[:n]
	}
	return w
}
