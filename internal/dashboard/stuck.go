package dashboard

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/internal/overview"
	"github.com/headway-go/headway/internal/register"
	"github.com/headway-go/headway/internal/shell"
	"github.com/headway-go/headway/reservations"
)

// How bad a problem is.
const (
	severe = "severe" // nothing goes on
	slow   = "slow"   // it goes on later than one would expect
	news   = "news"   // worth a look
)

const (
	// longWait is the expected wait from which on a waitlist is a problem, in seconds.
	longWait = 3600
	// longReady is for how long a ready task may wait for a free worker.
	longReady = time.Minute
	// faultShown is how many letters of an error a problem has.
	faultShown = 300
)

// problem is something that does not go on, or not as one would expect.
type problem struct {
	Severity string
	What     string // a sentence
	Do       string // what ends it
	Link     string // the page that shows more
}

// stuck returns the problems of the fleet, the worst first.
func (f *fleet) stuck() []problem {
	var all []problem
	add := func(severity, link, do, what string, args ...any) {
		all = append(all, problem{Severity: severity, Link: link, Do: do, What: fmt.Sprintf(what, args...)})
	}
	for _, fault := range f.Faults {
		add(severe, "", "Check REDIS_URL, MONGODB_URI and the services.", "The page cannot read %s: %v.", fault.What,
			strings.TrimSuffix(cli.FirstLine(fault.Err.Error(), faultShown, "…"), "."))
	}
	f.stuckQueues(add)
	f.stuckBuckets(add)
	if f.DeadLately > 0 {
		add(news, "/dead?since=1h", "Look at their errors, and requeue them when the cause is gone.",
			"%s died in the last hour.", count(f.DeadLately, "task"))
	}
	named := map[register.Need]bool{}
	for _, b := range f.Batches {
		if need := register.Lacking(f.Members, needs(b.Limit)...); need != nil && b.State == "open" && b.Waiting > 0 {
			named[*need] = true
			add(severe, b.Link, sentence(need.Remedy()), "No live worker has %s: %s of batch %s %s.", need,
				count(b.Waiting, "request"), b.Name, plural(b.Waiting, "waits", "wait"))
		}
		if b.State == "open" && b.Failed > 0 {
			add(news, b.Link, "Send them again with `"+shell.Command("headway retry", b.ID, "--failed")+"`.",
				"%s of batch %s failed.", count(b.Failed, "request"), b.Name)
		}
	}
	for _, l := range f.Lacked {
		if !named[l.Need] && register.Lacking(f.Members, l.Need) != nil {
			add(severe, "", sentence(l.Remedy()), "No live worker has %s: %s for a worker that has it.", l.Need,
				count(l.Tasks, "task")+" "+plural(l.Tasks, "waits", "wait"))
		}
	}
	order := []string{severe, slow, news}
	slices.SortStableFunc(all, func(a, b problem) int {
		return cmp.Compare(slices.Index(order, a.Severity), slices.Index(order, b.Severity))
	})
	return all
}

func sentence(remedy string) string { return strings.ToUpper(remedy[:1]) + remedy[1:] + "." }

// needs are the limits of a batch, as its record has them.
func needs(limits string) (needs []register.Need) {
	for _, name := range limitsOf(limits) {
		needs = append(needs, register.Need{Limit: reservations.ParseBucket(name).Limit})
	}
	return needs
}

type addProblem func(severity, link, do, what string, args ...any)

// stuckQueues finds queues of which nothing is taken, or too slowly.
func (f *fleet) stuckQueues(add addProblem) {
	for _, q := range f.queueViews() {
		tasks := q.Pending + q.Scheduled + q.Retry
		switch {
		case tasks == 0:
		case q.Paused:
			add(severe, q.Link, "Resume it.", "Queue %s is paused: %s %s not start.", q.Queue, count(tasks, "task"),
				plural(tasks, "does", "do"))
		case q.State == queueUnserved && len(f.Workers) == 0:
			add(severe, q.Link, "Start `headway worker`.", "No worker is running: %s in queue %s %s.", count(tasks, "task"),
				q.Queue, plural(tasks, "waits", "wait"))
		case q.State == queueUnserved:
			add(severe, q.Link, "List the queue under `queues` in headway.yaml, and restart the workers.",
				"No worker takes from queue %s: %s %s.", q.Queue, count(tasks, "task"), plural(tasks, "waits", "wait"))
		case q.Pending > 0 && q.Latency > longReady:
			add(slow, q.Link, "Raise `concurrency`, or start more workers.",
				"The oldest of %s in queue %s has waited %s for a free worker.", count(q.Pending, "ready task"), q.Queue,
				duration(q.Latency))
		}
	}
}

// stuckBuckets finds waitlists that do not move, or not soon.
func (f *fleet) stuckBuckets(add addProblem) {
	waiting := 0
	for _, b := range f.Buckets() {
		waiting += b.Waiting
		link := limitLink(b)
		who := count(b.Waiting, "task") + " " + plural(b.Waiting, "waits", "wait")
		switch {
		case b.Fault != "":
			add(severe, link, "If its document is corrupt, `"+shell.Command("headway limits reset", b.Bucket)+"` deletes it.",
				"The bucket of %s can't be read: %s.", b.Bucket, who)
		case b.FailedIn > 0:
			add(severe, link, "Check the store of the buckets.",
				"The bucket of %s could not be asked: %s. It is asked again in %s.", b.Bucket, who, seconds(b.FailedIn))
		case b.Stopped() != "":
			add(severe, link, "Pay, raise the quota or set the key; `"+shell.Command("headway limits unblock", b.Bucket)+
				"` asks at once.", "The limit %s has stopped for %s, because %s: %s.", b.Bucket, seconds(b.RefusingFor),
				b.Stopped(), who)
		case b.Forgotten > 0 && b.Waiting > 0:
			add(slow, link, "Wait; or, if no such call can run, `"+shell.Command("headway limits reset", b.Bucket)+"`.",
				"Nothing of %s starts for %s, because Redis is new or lost its data, and calls of before may still run: %s.",
				b.Bucket, seconds(b.Forgotten), who)
		case b.Blocked > 0 && b.Waiting > 0:
			add(slow, link, "`"+shell.Command("headway limits unblock", b.Bucket)+"` ends the block.",
				"Nothing of %s starts for %s, because a provider refused a call: %s.", b.Bucket, seconds(b.Blocked), who)
		case b.EndIn != nil && *b.EndIn > longWait:
			add(slow, link, "Raise the limit, or let the tasks wait.", "%s for %s; the last is expected to start in %s.",
				who, b.Bucket, seconds(*b.EndIn))
		}
	}
	if waiting > 0 && f.Duty.Dispatcher == "" && !f.faulty("the dispatcher") && len(f.Workers) > 0 {
		add(severe, "", "Look at the logs of the workers.",
			"No dispatcher is on duty: %s %s for limits, and no task is promoted.", count(waiting, "task"),
			plural(waiting, "waits", "wait"))
	}
}

// faulty says whether a part of the fleet could not be read.
func (f *fleet) faulty(what string) bool {
	return slices.ContainsFunc(f.Faults, func(fault fault) bool { return fault.What == what })
}

// limitLink is the page of a bucket; all shards of a bucket have one page.
func limitLink(b overview.Bucket) string {
	return "/limit?name=" + url.QueryEscape(bucket.Name(b.Limit, b.Key))
}
