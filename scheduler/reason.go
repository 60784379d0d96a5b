package scheduler

import (
	"encoding/json"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/line/class"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/internal/line/waitlist"
)

// Reason is why a task does not run, or what became of it, in one word.
type Reason string

const (
	// ReasonReady says that it is in its queue, and a worker takes it as soon as one is free.
	ReasonReady Reason = "ready"
	// ReasonPaused says that it is ready, and its queue is paused.
	ReasonPaused Reason = "paused"
	// ReasonUnserved says that it is ready, and no worker that lives takes from its queue.
	ReasonUnserved Reason = "unserved"
	// ReasonRunning says that a worker has it.
	ReasonRunning Reason = "running"
	// ReasonOrphaned says that its worker is gone: asynq puts the task back, by a worker that takes from the queue.
	ReasonOrphaned Reason = "orphaned"
	// ReasonLimit says that it waits for a limit, in the waitlist of a bucket.
	ReasonLimit Reason = "limit"
	// ReasonPromoted says that its tokens are there, and it is on its way to its queue or to a worker.
	ReasonPromoted Reason = "promoted"
	// ReasonBlocked says that nothing starts in its bucket, because a provider refused a call.
	ReasonBlocked Reason = "blocked"
	// ReasonInFlight says that it waits until calls in flight of its limit end.
	ReasonInFlight Reason = "in_flight"
	// ReasonProvider says that its own call was refused by the provider.
	ReasonProvider Reason = "provider"
	// ReasonStore says that its bucket could not be asked.
	ReasonStore Reason = "store"
	// ReasonNet says that it was sent back and is in no waitlist: Redis could not store that, or lost it. Asynq
	// delivers it.
	ReasonNet Reason = "net"
	// ReasonWorker says that a worker returned it, because that worker lacks its limit, its handler or a key.
	ReasonWorker Reason = "worker"
	// ReasonScheduled says that it was enqueued for a later time.
	ReasonScheduled Reason = "scheduled"
	// ReasonRetry says that it failed, and is tried again.
	ReasonRetry Reason = "retry"
	// ReasonGroup says that it waits for others of its group.
	ReasonGroup Reason = "group"
	// ReasonArchived says that it failed for good, or that an operator archived it.
	ReasonArchived Reason = "archived"
	// ReasonCompleted says that it is done, and kept for a while.
	ReasonCompleted Reason = "completed"
)

// startsLater says that the task is yet to be taken from its queue, so that a pause keeps it.
func (e Explanation) startsLater() bool {
	switch e.Reason { //nolint:exhaustive // all others are yet to come
	case ReasonRunning, ReasonArchived, ReasonCompleted:
		return false
	default:
		return true
	}
}

// setReason finds the reason, and what belongs to it.
func setReason(e *Explanation, info *asynq.TaskInfo, at waitlist.Position, q asynqdb.QueueState) {
	waits := at.State != waitlist.StateNew
	switch info.State {
	case asynq.TaskStatePending:
		e.Reason = ReasonReady
		if q.Workers == 0 {
			e.Reason = ReasonUnserved
		}
		if q.Paused {
			e.Reason = ReasonPaused
		}
	case asynq.TaskStateActive:
		e.Reason, e.Since = ReasonRunning, q.Started
		switch {
		case q.Orphaned(at.List.Now):
			e.Reason, e.Until = ReasonOrphaned, q.Lease.Add(asynqdb.RecoverAfter)
		case at.State == waitlist.StateWaiting: // its worker has not put it back yet
			setWait(e, at)
		}
	case asynq.TaskStateScheduled, asynq.TaskStateRetry:
		e.Until = info.NextProcessAt
		switch {
		case waits:
			setWait(e, at)
		case e.Note != "":
			e.Reason, e.Since = ReasonNet, info.LastFailedAt
			switch q.Note.Reason { // a task without a limit is in no waitlist
			case dispatcher.WhyWorker:
				e.Reason = ReasonWorker
			case dispatcher.WhyProvider:
				e.Reason = ReasonProvider
			}
		case info.State == asynq.TaskStateRetry:
			e.Reason, e.Since = ReasonRetry, info.LastFailedAt
		default:
			e.Reason = ReasonScheduled
		}
	case asynq.TaskStateArchived:
		e.Reason, e.Since = ReasonArchived, info.LastFailedAt
	case asynq.TaskStateCompleted:
		e.Reason, e.Since = ReasonCompleted, info.CompletedAt
	case asynq.TaskStateAggregating:
		e.Reason = ReasonGroup
	}
}

// setWait is for a task that is in a waitlist.
func setWait(e *Explanation, at waitlist.Position) {
	var info dispatcher.WaitInfo
	_ = json.Unmarshal(at.Info, &info) // what can't be read is not shown
	w := &Waiting{
		Bucket: at.Bucket, Tokens: at.Tokens, Urgent: at.Urgent, Reserved: at.Reserved,
		Tenant: at.Tenant, Flow: at.Flow, Flows: at.List.FlowCount, Position: at.Rank, Of: at.List.Waiting,
		TokensAhead: at.TokensAhead, AheadExact: at.Exact,
	}
	if at.Class != class.Urgent {
		w.Priority = at.Class
	}
	for _, f := range at.List.Flows {
		if f.Flow == waitlist.FlowName(at.Tenant, at.Flow) {
			w.FlowTasks = f.Tasks
		}
	}
	for _, h := range at.Held {
		if h.Bucket != at.Bucket {
			w.Others = append(w.Others, h.Bucket)
		}
	}
	e.Waits = w
	if info.Since != 0 {
		e.Since, e.Until = time.UnixMilli(info.Since).UTC(), time.UnixMilli(info.Until).UTC()
	}
	switch {
	case at.State == waitlist.StatePromoted:
		e.Reason, e.Until = ReasonPromoted, e.Now
	case !at.List.FailedUntil.IsZero() || info.Why == dispatcher.WhyStore:
		e.Reason, e.Until = ReasonStore, at.List.FailedUntil
	case info.Why == dispatcher.WhyProvider && e.Cause != "":
		e.Reason = ReasonProvider
	default:
		e.Reason = ReasonLimit
	}
	// If nothing else takes tokens before it, it starts when all that is ahead of it, and its own tokens, have come back.
	until, known := dispatcher.Expect(at.List, at.TokensAhead, at.Tokens)
	if known && e.Reason != ReasonPromoted && e.Reason != ReasonStore {
		if e.Until = until; until.IsZero() && e.Reason == ReasonLimit {
			e.Reason = ReasonInFlight
		}
	}
}
