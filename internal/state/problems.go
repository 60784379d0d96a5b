package state

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/fleet/cause"
	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/text/shell"
	"github.com/headway-go/headway/reservations"
)

// Severity is how bad a problem is.
type Severity string

// The severities, the worst first.
const (
	Severe Severity = "severe" // nothing goes on
	Slow   Severity = "slow"   // it goes on later than one would expect
	News   Severity = "news"   // worth a look
)

// The kinds of problems that do not keep a task from starting, or not by a cause of its own.
const (
	KindBusy       cause.Kind = "workers_busy"
	KindLongWait   cause.Kind = "long_wait"
	KindDispatcher cause.Kind = "no_dispatcher"
	KindDiffers    cause.Kind = "limits_differ"
	KindDead       cause.Kind = "died"
	KindFailed     cause.Kind = "failed"
	KindStopped    cause.Kind = "batch_stopped"
	KindUnread     cause.Kind = "unread"
)

const (
	// longWait is the expected wait from which on the waitlist of a limit without a goal is a problem.
	longWait = time.Hour
	// longReady is for how long a ready task may wait for a free worker.
	longReady = time.Minute
)

// Problem is something that does not go on, or not as one would expect.
type Problem struct {
	cause.Cause

	Severity Severity
	// Detail is the answer of a service; empty if there is none.
	Detail string
	// Tasks is how many tasks wait for its end, or have ended badly. Requests says that they are requests of a batch.
	Tasks    int
	Requests bool
	// For is for how long nothing starts, or how long it has been so. Again is when a stopped limit is asked again.
	For, Again time.Duration
	// Queue, Bucket, Limit and Batch say what it is about: at most one of them is set. Need is what no live worker has.
	Queue, Bucket, Limit, Batch string
	Need                        register.Need
}

// Problems returns what does not go on, the worst first. Each cause is named once.
func Problems(s Snapshot) []Problem {
	var all []Problem
	for _, fault := range s.Faults {
		all = append(all, Problem{Severity: Severe, Cause: cause.Cause{
			Kind: KindUnread, Text: string(fault.Part) + " can't be read",
			Remedy: "check REDIS_URL, MONGODB_URI and the services",
		}, Detail: firstLine(fault.Err.Error())})
	}
	all = append(append(all, s.queues()...), s.buckets()...)
	for _, l := range s.Limits {
		for _, text := range l.Differs {
			all = append(all, Problem{Severity: News, Limit: l.Limit, Cause: cause.Cause{
				Kind: KindDiffers, Text: "limit " + l.Limit + " has other settings somewhere: " + text,
				Remedy: "give all workers and headway.yaml the same limits",
			}})
		}
	}
	if s.DeadLately > 0 {
		all = append(all, Problem{Severity: News, Tasks: s.DeadLately, Cause: cause.Cause{
			Kind: KindDead, Text: "died in the last hour",
			Remedy: "look at their errors, and requeue them when the cause is gone",
		}})
	}
	all = append(all, s.lacking()...)
	order := []Severity{Severe, Slow, News}
	slices.SortStableFunc(all, func(a, b Problem) int {
		return cmp.Compare(slices.Index(order, a.Severity), slices.Index(order, b.Severity))
	})
	return all
}

// lacking finds what no live worker has, by open batches first. It also finds batches with failures.
func (s *Snapshot) lacking() (all []Problem) {
	named := map[register.Need]bool{}
	for _, b := range s.Batches {
		var needs []register.Need
		for _, name := range b.Limits {
			at, _ := reservations.ParseBucket(name) // no worker has a bad name
			needs = append(needs, register.Need{Limit: at.Limit})
		}
		if need := register.Lacking(s.Members, needs...); need != nil && b.Open && b.Waiting > 0 {
			named[*need] = true
			all = append(all, Problem{
				Severity: Severe, Cause: cause.Lacking(*need), Tasks: b.Waiting, Requests: true, Batch: b.ID, Need: *need,
			})
		}
		if b.Stopped {
			all = append(all, Problem{Severity: News, Tasks: b.Failed, Requests: true, Batch: b.ID, Cause: cause.Cause{
				Kind: KindStopped, Text: "of batch " + b.Name + " failed, and it has stopped, as --max-failures says",
				Remedy: "enqueue its file again to go on; `" + shell.Command("headway status", b.ID, "--failed") +
					"` lists the failures",
			}})
		}
		if b.Open && b.Failed > 0 {
			all = append(all, Problem{Severity: News, Tasks: b.Failed, Requests: true, Batch: b.ID, Cause: cause.Cause{
				Kind: KindFailed, Text: "of batch " + b.Name + " failed",
				Remedy: "send them again with `" + shell.Command("headway retry", b.ID, "--failed") + "`",
			}})
		}
	}
	for _, l := range s.Limits {
		need := register.Need{Limit: l.Limit}
		if waiting := s.lack(l); waiting > 0 && !named[need] {
			named[need] = true
			all = append(all, Problem{Severity: Severe, Cause: cause.Lacking(need), Tasks: waiting, Need: need})
		}
	}
	for _, l := range s.Lacked {
		if !named[l.Need] && register.Lacking(s.Members, l.Need) != nil {
			all = append(all, Problem{Severity: Severe, Cause: cause.Lacking(l.Need), Tasks: l.Tasks, Need: l.Need})
		}
	}
	return all
}

// queues finds queues of which nothing is taken, or too slowly.
func (s *Snapshot) queues() (all []Problem) {
	for _, q := range s.Queues {
		tasks := q.Pending + q.Scheduled + q.Retry
		takers, others := s.Takers(q.Queue)
		p := Problem{Severity: Severe, Tasks: tasks, Queue: q.Queue}
		switch {
		case tasks == 0:
			continue
		case q.Paused:
			p.Cause = cause.Paused(q.Queue)
		case takers == 0 && s.Unread(PartWorkers) == nil:
			p.Cause = cause.Unserved(q.Queue, others)
		case q.Pending > 0 && q.Latency > longReady:
			p.Severity, p.Tasks, p.For = Slow, q.Pending, q.Latency
			p.Cause = cause.Cause{
				Kind: KindBusy, Text: "no worker is free for queue " + q.Queue,
				Remedy: "raise `concurrency`, or start more workers",
			}
		default:
			continue
		}
		all = append(all, p)
	}
	return all
}

// buckets finds waitlists that do not move, or not soon.
func (s *Snapshot) buckets() (all []Problem) {
	waiting, goals := 0, map[string]time.Duration{}
	for _, l := range s.Limits {
		goals[l.Limit] = l.WaitGoal
	}
	for _, b := range s.Buckets() {
		waiting += b.Waiting
		p, stops := b.Problem()
		switch {
		case p.Severity == Slow && b.Waiting == 0:
			continue
		case stops:
		case b.EndIn != nil && *b.EndIn > cmp.Or(goals[b.Limit], longWait).Seconds():
			p.Severity, p.For = Slow, duration(*b.EndIn)
			p.Cause = cause.Cause{
				Kind: KindLongWait, Text: "the waitlist of limit " + b.Bucket + " is long",
				Remedy: "raise the limit, or let the tasks wait",
			}
		default:
			continue
		}
		all = append(all, p)
	}
	if waiting > 0 && s.Duty.Dispatcher == "" && s.Unread(PartDispatcher) == nil && len(s.Workers) > 0 {
		all = append(all, Problem{Severity: Severe, Tasks: waiting, Cause: cause.Cause{
			Kind: KindDispatcher, Text: "no dispatcher is on duty, so no task is promoted",
			Remedy: "look at the logs of the workers",
		}})
	}
	return all
}

// Problem is why nothing starts in the bucket. It is false if tasks may start.
func (b Bucket) Problem() (Problem, bool) {
	p := Problem{Severity: Severe, Tasks: b.Waiting, Bucket: b.Bucket, Detail: b.Fault}
	p.Cause, p.For = b.Cause()
	if p.Kind == cause.KindBlocked || p.Kind == cause.KindForgotten {
		p.Severity = Slow
	}
	if p.Kind == cause.KindQuota || p.Kind == cause.KindKey {
		p.Again = duration(b.Blocked)
	}
	return p, p.Kind != ""
}

// Pause is the pause of the first paused queue with tasks that wait for the bucket.
func (b Bucket) Pause() Problem {
	queue := b.Paused[0]
	return Problem{Severity: Severe, Cause: cause.Paused(queue), Tasks: b.Held[queue], Queue: queue}
}

// Cause is why nothing starts in the bucket, with for how long: of a bucket that only people can get to go on, for how
// long it has been so. It is zero if tasks may start.
func (b Bucket) Cause() (cause.Cause, time.Duration) {
	name := b.Bucket
	switch why := cause.Stopped(name, bucket.Reason(b.Refusing)); {
	case b.Fault != "":
		return cause.Fault(name), 0
	case b.FailedIn > 0:
		return cause.Store(name), duration(b.FailedIn)
	case why.Kind != "":
		return why, duration(b.RefusingFor)
	case b.Forgotten > 0:
		return cause.Forgotten(name), duration(b.Forgotten)
	case b.Blocked > 0:
		return cause.Blocked(name), duration(b.Blocked)
	}
	return cause.Cause{}, 0
}

// Of are the problems that keep the requests of a batch.
func (b Batch) Of(problems []Problem) []Problem {
	return kept(problems, func(p Problem) bool {
		if p.Batch != "" {
			return p.Batch == b.ID
		}
		return p.Queue != "" && p.Queue == b.Queue || slices.ContainsFunc(b.Limits, func(name string) bool {
			at, _ := reservations.ParseBucket(name) // no task waits for a bad one
			return p.Bucket == name || p.Need.Limit != "" && p.Need.Limit == at.Limit
		})
	})
}

// Of are the problems that keep tasks of the limit: of its buckets, of the queues of tasks that wait there, and of all
// tasks.
func (l Limit) Of(problems []Problem) []Problem {
	return kept(problems, func(p Problem) bool {
		return p.Need.Limit == l.Limit || slices.ContainsFunc(l.Buckets, func(b Bucket) bool {
			return p.Bucket == b.Bucket || p.Queue != "" && b.Queues[p.Queue] > 0
		})
	})
}

// kept are the problems that keep some tasks: what these are held by, and what keeps the whole fleet.
func kept(problems []Problem, hold func(Problem) bool) []Problem {
	return slices.DeleteFunc(slices.Clone(problems), func(p Problem) bool {
		of := p.Batch + p.Queue + p.Bucket + p.Need.Limit
		return p.Severity == News || of != "" && !hold(p) || of == "" && p.Kind != KindDispatcher && p.Kind != KindUnread
	})
}

// firstLine is what a problem shows of an error.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return strings.TrimSuffix(strings.ToValidUTF8(line[:min(len(line), faultMost)], ""), ".")
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
