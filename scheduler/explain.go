package scheduler

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/fleet/cause"
	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/line/class"
	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/internal/text/shell"
	"github.com/headway-go/headway/reservations"
)

// Explanation says why a task does not run. Times are on Redis's clock, but Since, which a worker wrote.
type Explanation struct {
	// Queue and ID name the task, and Type is its type.
	Queue string `json:"-"`
	ID    string `json:"-"`
	Type  string `json:"type"`
	// State is asynq's word for where the task is: pending, active, scheduled, retry, archived, completed or aggregating.
	State  string `json:"state"`
	Reason Reason `json:"reason"`
	// Now is the moment that all this is true for.
	Now time.Time `json:"now"`
	// Since is when the present state began, as far as that is known: the wait, the run, the end.
	Since time.Time `json:"since,omitzero"`
	// Until is when it is expected to go on; nothing of a paused queue starts (Resume). Of a task whose worker is gone
	// it is the first moment at which asynq puts it back. Zero where no time is known. So it is for a task that waits for
	// a limit while no live worker takes from its queue, or can serve it.
	Until time.Time `json:"until,omitzero"`
	// Waits is how the task waits for a bucket. Nil where it does not.
	Waits *Waiting `json:"waits,omitempty"`
	// StartBy is when the task has to start at the latest. Zero where it has no such time.
	StartBy time.Time `json:"start_by,omitzero"`
	// Net is when asynq itself would deliver a waiting task, should no dispatcher promote it.
	Net time.Time `json:"net,omitzero"`
	// Charges are all that the task takes, as its headers say; none for tasks of other programs, where only their
	// middleware knows.
	Charges []reservations.Charge `json:"charges,omitempty"`
	// Before is how many tasks are taken from the queue before a pending one. Negative where that is not known.
	Before int `json:"before"`
	// Workers is how many workers take from the queue, Elsewhere how many from other queues only; Worker is the one
	// that runs the task, as host:pid.
	Workers   int    `json:"workers"`
	Elsewhere int    `json:"workers_elsewhere,omitempty"`
	Worker    string `json:"worker,omitempty"`
	// Paused says that the task's queue is paused, and Resume is the command that ends it. It is empty where
	// the pause does not concern the task: one that runs, is done, or is in the archive.
	Paused bool   `json:"paused,omitempty"`
	Resume string `json:"resume,omitempty"`
	// Failures is how often the task failed, that which archived it included; MaxRetry is how often it is tried again
	// at most.
	Failures int `json:"failures"`
	MaxRetry int `json:"max_retry"`
	// LastError is the last failure. Note is what asynq's tools show for a task that waits and did not fail. Cause is
	// the part of it that says what the provider or the store answered.
	LastError string `json:"last_error,omitempty"`
	Note      string `json:"note,omitempty"`
	Cause     string `json:"cause,omitempty"`
	// Lacking says what the task needs and no live worker has, and Remedy what ends that. Both are empty where a live
	// worker can serve the task, where none is known, and for a task that does not start any more.
	Lacking string `json:"lacking,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
	// Refusals is how often in a row the provider refused the task's call.
	Refusals int `json:"refusals,omitempty"`
	// Bucket is the bucket that the task waits for. Nil where the Scheduler has no limiter, where the bucket could not
	// be asked lately, and where BucketErr says that it could not be read.
	Bucket    *reservations.View `json:"-"`
	BucketErr error              `json:"-"`
}

// Waiting is how a task waits for a bucket.
type Waiting struct {
	// Bucket is the name of the bucket that the task waits for: of several charges, the one that refused it.
	Bucket string `json:"bucket"`
	// Tokens are what the task takes from the bucket.
	Tokens reservations.Tokens `json:"tokens,omitempty"`
	// Urgent says that the task may use the headroom of the limit, Reserved that the bucket has promised its tokens.
	Urgent   bool `json:"urgent,omitempty"`
	Reserved bool `json:"reserved,omitempty"`
	// Tenant is the tenant that the task belongs to, and TenantWeight its weight in the limit. Empty and zero for a task
	// that names none. Flow is its flow below that, and Weight the weight of the flow. Flows is the number of named flows
	// that wait there. FlowTasks is how many tasks the flow has, if it is one of the ten largest.
	Tenant       string  `json:"tenant,omitempty"`
	TenantWeight float64 `json:"tenant_weight,omitempty"`
	Flow         string  `json:"flow,omitempty"`
	Flows        int     `json:"flows,omitempty"`
	FlowTasks    int     `json:"flow_tasks,omitempty"`
	Weight       float64 `json:"weight,omitempty"`
	// Priority is the priority that the task counts for, and PriorityWeight its weight in the limit. Empty and zero where
	// the limit has none.
	Priority       string  `json:"priority,omitempty"`
	PriorityWeight float64 `json:"priority_weight,omitempty"`
	// Position is the task's place in the waitlist, from 1; Of is the number of tasks that wait there. Zero for a
	// promoted task.
	Position int `json:"position"`
	Of       int `json:"of"`
	// TokensAhead is what the tasks before it take, with the promoted ones; an estimate unless AheadExact.
	TokensAhead reservations.Tokens `json:"tokens_ahead,omitempty"`
	AheadExact  bool                `json:"tokens_ahead_exact,omitempty"`
	// Others are the other buckets in which a task with several charges keeps a place.
	Others []string `json:"others,omitempty"`
}

// Explain says why the task does not run, what it waits for, and when it is expected to start. With an empty queue it
// looks in all of them, and it is an error if several have a task with the ID. Explain only reads;
// between its few reads a task may move on, and then it answers with either state. Where the bucket can't be read,
// BucketErr says so. The error matches asynq.ErrTaskNotFound where there is no such task, or is Redis's.
func (s *Scheduler) Explain(ctx context.Context, queue, id string) (Explanation, error) {
	t, err := s.named(ctx, queue, id)
	if err != nil {
		return Explanation{}, err
	}
	info, err := s.info(ctx, t)
	if err != nil {
		return Explanation{}, err
	}
	at, err := s.list.Position(ctx, t)
	if err != nil {
		return Explanation{}, err
	}
	waited := info.State == asynq.TaskStateScheduled || info.State == asynq.TaskStateRetry
	if waited && at.State != waitlist.StateWaiting { // it may have moved on since it was read first
		if info, err = s.info(ctx, t); err != nil {
			return Explanation{}, err
		}
	}
	q, err := s.queues.State(ctx, t.Queue, t.ID)
	if err != nil {
		return Explanation{}, err
	}
	e := newExplanation(t, info, at, q, s.dispatcher.Refusals(ctx, t))
	s.serve(ctx, &e)
	if e.Waits != nil && s.limiter != nil {
		s.weigh(e.Waits)
		if e.Reason != ReasonStore {
			s.showBucket(ctx, &e)
		}
	}
	if e.Waits != nil && e.Reason != ReasonStore && (e.Workers == 0 || e.Lacking != "") {
		e.Until = time.Time{} // a worker has to come first
	}
	return e, nil
}

// serve says what the task needs and no live worker has. If the register can't be read, nothing is said.
func (s *Scheduler) serve(ctx context.Context, e *Explanation) {
	if !e.startsLater() {
		return
	}
	members, _ := s.register.Members(ctx) // the rest is known
	needs := []register.Need{{Type: e.Type}}
	for _, c := range e.Charges {
		needs = append(needs, register.Need{Limit: c.Limit})
		for _, meter := range slices.Sorted(maps.Keys(c.Tokens)) {
			needs = append(needs, register.Need{Limit: c.Limit, Meter: meter})
		}
	}
	if e.Reason == ReasonWorker {
		needs = append(needs, s.providers(ctx, e)...)
	}
	if need := register.Lacking(members, needs...); need != nil {
		lacking := cause.Lacking(*need)
		e.Lacking, e.Remedy = lacking.Text, lacking.Remedy
	}
}

// providers returns the need of a provider for which workers return tasks like this one.
func (s *Scheduler) providers(ctx context.Context, e *Explanation) (needs []register.Need) {
	lacks, _ := s.register.Lacked(ctx, e.Now) // the rest is known
	limit := ""
	if n := len(e.Charges); n > 0 {
		limit = e.Charges[n-1].Limit
	}
	for _, l := range lacks {
		if l.Provider && l.Type == e.Type && l.Limit == limit {
			needs = append(needs, l.Need)
		}
	}
	return needs
}

// weigh adds the weights that the limit gives to the priority, the tenant and the flow of a waiting task.
func (s *Scheduler) weigh(w *Waiting) {
	at, _ := reservations.ParseBucket(w.Bucket) // no limit has a bad name
	if limit, err := inside.Of(s.limiter).Limits().For(at.Limit, at.Key); err == nil {
		if w.PriorityWeight = limit.Priorities[w.Priority]; w.Flow != "" {
			w.Weight = class.Weight(limit, w.Flow)
		}
		if w.Tenant != "" {
			w.TenantWeight = class.Weight(limit, w.Tenant)
		}
	}
}

func newExplanation(
	t waitlist.Task, info *asynq.TaskInfo, at waitlist.Position, q asynqdb.QueueState, refusals int,
) Explanation {
	e := Explanation{
		Queue: t.Queue, ID: t.ID, Type: info.Type, State: info.State.String(),
		Now: at.List.Now.UTC(), Before: q.Before, Paused: q.Paused,
		Workers: q.Workers, Elsewhere: q.Others, Worker: q.Worker,
		Failures: failures(q, info), Refusals: refusals, Net: info.NextProcessAt,
	}
	task := asynq.NewTaskWithHeaders(info.Type, info.Payload, info.Headers)
	e.MaxRetry = envelope.MaxRetry(task, info.MaxRetry)
	e.Charges, _ = envelope.Charges(task) // a worker archives a task whose charges can't be read
	if q.Note.Of(info.LastErr) {
		e.Note, e.Cause = info.LastErr, q.Note.Cause
	} else {
		e.LastError = info.LastErr
	}
	setReason(&e, info, at, q)
	if by := envelope.StartBy(task); !by.IsZero() {
		e.StartBy = by.UTC()
	}
	if later := envelope.At(task); later.After(e.Now) && info.State == asynq.TaskStateScheduled {
		e.Reason, e.Until, e.Waits = ReasonScheduled, later.UTC(), nil
	}
	if e.Paused && e.startsLater() {
		e.Resume = shell.Command("headway unpause", t.Queue)
	}
	return e
}

// showBucket adds the bucket that the task waits for. Where it is blocked, that is the reason.
func (s *Scheduler) showBucket(ctx context.Context, e *Explanation) {
	at, err := reservations.ParseBucket(e.Waits.Bucket)
	if err != nil {
		e.BucketErr = err
		return
	}
	v, err := s.limiter.View(ctx, at.Limit, at.Key)
	if err != nil {
		e.BucketErr = err
		return
	}
	if at.Shard > 0 && at.Shard <= len(v.Shards) {
		v = v.Shards[at.Shard-1]
	}
	e.Bucket = &v
	if e.Reason == ReasonInFlight && v.Forgotten > 0 {
		e.Until = e.Now.Add(v.Forgotten)
	}
	stopped := bucket.Reason(v.Refusing).Stops()
	// The task that asked last has the reason of the provider.
	waits := e.Reason == ReasonLimit || e.Reason == ReasonInFlight
	if (v.Blocked > 0 || stopped) && waits || stopped && e.Reason == ReasonProvider {
		if e.Reason = ReasonBlocked; e.Until.IsZero() {
			e.Until = e.Now.Add(v.Blocked)
		}
	}
}
