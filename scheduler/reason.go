package scheduler

import (
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/reservations"
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
	// ReasonPlan says that it waits for the time that it was given in the plan of a bucket.
	ReasonPlan Reason = "plan"
	// ReasonLine says that it has a ticket behind max_reserved, and comes back to be given a time.
	ReasonLine Reason = "line"
	// ReasonLate says that it came at its time and found no room; it is among the first.
	ReasonLate Reason = "late"
	// ReasonBlocked says that nothing starts in its bucket, for a provider refused a call.
	ReasonBlocked Reason = "blocked"
	// ReasonUpstream says that its own call was refused by the provider.
	ReasonUpstream Reason = "upstream"
	// ReasonStore says that the store of the buckets could not be asked.
	ReasonStore Reason = "store"
	// ReasonWaking says that its time has come, and it is being moved to its queue.
	ReasonWaking Reason = "waking"
	// ReasonNet says that it was sent back, and stands in no line: Redis could not take the note, or lost it. Asynq delivers it.
	ReasonNet Reason = "net"
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

// Workers look for tasks whose worker is gone when they start and every recoverEvery, and take those whose lease ended recoverAfter ago. Both are asynq's.
const (
	recoverAfter = 30 * time.Second
	recoverEvery = time.Minute
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

// tell finds the reason, and what belongs to it.
func tell(e *Explanation, info *asynq.TaskInfo, place standing, q queueState) {
	switch info.State {
	case asynq.TaskStatePending:
		e.Reason = ReasonReady
		if q.workers == 0 {
			e.Reason = ReasonUnserved
		}
		if q.paused {
			e.Reason = ReasonPaused
		}
	case asynq.TaskStateActive:
		e.Reason, e.Since = ReasonRunning, q.started
		switch {
		case q.orphaned(place.now):
			e.Reason, e.Until = ReasonOrphaned, q.lease.Add(recoverAfter)
		case place.stands: // its worker has not put it back yet
			tellWait(e, place)
		}
	case asynq.TaskStateScheduled, asynq.TaskStateRetry:
		tellLater(e, info, place)
	case asynq.TaskStateArchived:
		if place.stands && onlyWaited(info) {
			tellWait(e, place)
			return
		}
		e.Reason, e.Since = ReasonArchived, info.LastFailedAt
	case asynq.TaskStateCompleted:
		e.Reason, e.Since = ReasonCompleted, info.CompletedAt
	case asynq.TaskStateAggregating:
		e.Reason = ReasonGroup
	}
}

// tellLater is for a task that asynq has in its own sets until a time.
func tellLater(e *Explanation, info *asynq.TaskInfo, place standing) {
	e.Until = info.NextProcessAt
	switch {
	case place.stands || place.waking:
		tellWait(e, place)
	case e.Note != "":
		e.Reason, e.Since = ReasonNet, info.LastFailedAt
		if e.Cause != "" && place.refusals > 0 {
			e.Reason = ReasonUpstream // a task without a limit stands in no line
		}
	case info.State == asynq.TaskStateRetry:
		e.Reason, e.Since = ReasonRetry, info.LastFailedAt
	default:
		e.Reason = ReasonScheduled
	}
}

// tellWait is for a task that stands in a line.
func tellWait(e *Explanation, place standing) {
	kept := place.kept
	e.Waits = &Waiting{
		Bucket: kept.Bucket, State: kept.State, Tokens: kept.Tokens, Rank: place.rank, Of: place.of,
		Store: place.line == outageLine, Generation: kept.Generation, Others: place.others,
	}
	e.Since, e.Until = kept.Since, place.due
	switch {
	case !place.stands:
		e.Reason, e.Until = ReasonWaking, place.now
	case e.Waits.Store:
		e.Reason = ReasonStore
	case place.refusals > 0 && e.Cause != "":
		e.Reason = ReasonUpstream
	case kept.State == reservations.StateReserved:
		e.Reason = ReasonPlan
	case kept.State == reservations.StateLate:
		e.Reason = ReasonLate
	default:
		e.Reason = ReasonLine
	}
}
