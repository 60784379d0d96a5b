package scheduler

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// Explanation tells why a task does not run. Times are on Redis's clock, but Since, which a worker wrote.
type Explanation struct {
	Task Task   `json:"-"`
	Type string `json:"type"`
	// State is asynq's word for where the task is: pending, active, scheduled, retry, archived, completed or aggregating.
	State  string `json:"state"`
	Reason Reason `json:"reason"`
	// Now is the moment that all this is true for.
	Now time.Time `json:"now"`
	// Since is when the present state began, as far as that is known: the wait, the run, the end.
	Since time.Time `json:"since,omitzero"`
	// Until is when it goes on, as things stand: lines may be moved meanwhile, and nothing of a queue that is paused starts (Resume). Of a task whose
	// worker is gone it is the first moment at which asynq puts it back. Zero where no time is known.
	Until time.Time `json:"until,omitzero"`
	// Waits is how the task waits for a bucket. Nil where it does not.
	Waits *Waiting `json:"waits,omitempty"`
	// Net is when asynq itself would deliver a waiting task, should no worker wake it.
	Net time.Time `json:"net,omitzero"`
	// Charges are all that the task takes, as its headers say; none for tasks of other programs, where only their middleware knows.
	Charges []reservations.Charge `json:"charges,omitempty"`
	// Before is how many tasks are taken from the queue before a pending one. Negative where that is not known.
	Before int `json:"before"`
	// Workers is how many workers take from the queue, Elsewhere how many from other queues only; Worker is the one that runs the task, as host:pid.
	Workers   int    `json:"workers"`
	Elsewhere int    `json:"workers_elsewhere,omitempty"`
	Worker    string `json:"worker,omitempty"`
	// Paused says that the task's queue is paused, and Resume is the command of asynq that ends it. It is empty where the pause does not
	// concern the task: one that runs, is done, or is in the archive.
	Paused bool   `json:"paused,omitempty"`
	Resume string `json:"resume,omitempty"`
	// Failures is how often the task failed, that which archived it included; MaxRetry is how often it is tried again at most.
	Failures int `json:"failures"`
	MaxRetry int `json:"max_retry"`
	// LastError is the last failure, Note what asynq's tools show for a task that waits and did not fail, and Cause the part of it
	// that says what the provider or the store answered.
	LastError string `json:"last_error,omitempty"`
	Note      string `json:"note,omitempty"`
	Cause     string `json:"cause,omitempty"`
	// Refusals is how often in a row the provider refused the task's call.
	Refusals int `json:"refusals,omitempty"`
	// Bucket is what the bucket looks like that the task waits for. Nil where the Scheduler has no limiter, where the task waits for the
	// store, and where BucketErr says that it could not be read.
	Bucket    *reservations.View `json:"-"`
	BucketErr error              `json:"-"`
}

// Waiting is how a task waits for a bucket.
type Waiting struct {
	// Bucket is the name of the bucket that refused the task: of several charges, the one it stands in line for.
	Bucket string `json:"bucket"`
	// State is what the task comes back with.
	State reservations.State `json:"state"`
	// Tokens are what the task takes from the bucket.
	Tokens reservations.Tokens `json:"tokens,omitempty"`
	// Rank is the task's place in the line, from 1, of so many that stand there. Zero for a task that is just being woken.
	Rank int `json:"rank"`
	Of   int `json:"of"`
	// Store says that it is the line of those who wait for the store of the buckets to answer.
	Store bool `json:"store,omitempty"`
	// Generation is that of the bucket that gave the place.
	Generation int64 `json:"generation,omitempty"`
	// Others are the places in other buckets that a task with several charges keeps.
	Others []OtherPlace `json:"others,omitempty"`
}

// Explain tells why the task does not run, what it waits for and until when. It reads only; between its few reads a task may move
// on, and then it tells one of the two truths. Where the bucket can't be read, the rest is told. The error matches
// asynq.ErrTaskNotFound where there is no such task, or is Redis's.
func (s *Scheduler) Explain(ctx context.Context, t Task) (Explanation, error) {
	info, err := s.info(ctx, t)
	if err != nil {
		return Explanation{}, err
	}
	place, err := s.lines.standing(ctx, t)
	if err != nil {
		return Explanation{}, err
	}
	if deferral(info.LastErr) && !place.stands { // it may have moved on since it was read first
		if info, err = s.info(ctx, t); err != nil {
			return Explanation{}, err
		}
	}
	q, err := s.queueState(ctx, t)
	if err != nil {
		return Explanation{}, err
	}
	e := newExplanation(t, info, place, q)
	if e.Waits != nil && !e.Waits.Store && s.limiter != nil {
		s.showBucket(ctx, &e)
	}
	return e, nil
}

func newExplanation(t Task, info *asynq.TaskInfo, place standing, q queueState) Explanation {
	e := Explanation{
		Task: t, Type: info.Type, State: info.State.String(), Now: place.now, Before: q.before, Paused: q.paused,
		Workers: q.workers, Elsewhere: q.others, Worker: q.worker,
		Failures: q.failures(info), MaxRetry: info.MaxRetry, Refusals: place.refusals, Net: info.NextProcessAt,
	}
	task := asynq.NewTaskWithHeaders(info.Type, info.Payload, info.Headers)
	if n, ours := tasks.MaxRetry(task); ours {
		e.MaxRetry = n
	}
	e.Charges, _ = tasks.Charges(task) // charges that can't be read are no charges; such a task is archived with that error
	if deferral(info.LastErr) {
		e.Note, e.Cause = info.LastErr, causeIn(info.LastErr)
	} else {
		e.LastError = info.LastErr
	}
	tell(&e, info, place, q)
	if e.Paused && e.startsLater() {
		e.Resume = "asynq queue unpause " + t.Queue
	}
	return e
}

// showBucket adds what the bucket looks like that the task waits for. Where it is blocked, that is the reason.
func (s *Scheduler) showBucket(ctx context.Context, e *Explanation) {
	limit, shard, key := splitBucket(e.Waits.Bucket)
	v, err := s.limiter.View(ctx, limit, key)
	if err != nil {
		e.BucketErr = err
		return
	}
	if shard > 0 && shard <= len(v.Shards) {
		v = v.Shards[shard-1]
	}
	e.Bucket = &v
	if v.Blocked > 0 && (e.Reason == ReasonPlan || e.Reason == ReasonLine || e.Reason == ReasonLate) {
		e.Reason = ReasonBlocked
	}
}

// splitBucket reads the name of a bucket: "limit:key", with a shard "limit#2:key".
func splitBucket(name string) (limit string, shard int, key string) {
	name, key, _ = strings.Cut(name, ":")
	limit, part, _ := strings.Cut(name, "#")
	shard, _ = strconv.Atoi(part) // none is zero
	return limit, shard, key
}

// deferral says whether a text that asynq keeps as a task's last error is that of a *DeferredError.
func deferral(text string) bool {
	return strings.HasPrefix(text, waitingText) || strings.HasPrefix(text, waitingUnlimited)
}

var causeShape = regexp.MustCompile(`(?s): until \S+Z, \S+ from \S+Z: (.*)$`)

// causeIn is what the text of a *DeferredError says of its cause, empty where it has none.
func causeIn(text string) string {
	if found := causeShape.FindStringSubmatch(text); found != nil {
		return found[1]
	}
	return ""
}
