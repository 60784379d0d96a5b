package scheduler

import (
	"fmt"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/fleet/cause"
	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/reservations"
)

// Summary says in one plain sentence why the task does not run.
func (e Explanation) Summary() string {
	text := e.sentence() + e.deadline() + e.pause()
	needed := e.Waits != nil || e.Reason == ReasonNet || e.Reason == ReasonPaused
	if needed && e.Workers == 0 {
		text += "; " + e.unserved()
	}
	if e.Lacking != "" {
		text += "; " + e.Lacking + ": " + e.Remedy
	}
	return "Task " + e.ID + " " + text + "."
}

// deadline says when the task has to start.
func (e Explanation) deadline() string {
	switch {
	case e.StartBy.IsZero(), !e.startsLater():
		return ""
	case !e.StartBy.After(e.Now):
		return "; it had to start by " + envelope.ClockText(e.StartBy) + " and ends as expired when a worker takes it"
	case e.Until.After(e.StartBy):
		return "; it must start by " + envelope.ClockText(e.StartBy) + " and is expected to expire"
	}
	return "; it must start by " + envelope.ClockText(e.StartBy)
}

// pause says what the pause of its queue means for the task, and how the pause ends.
func (e Explanation) pause() string {
	if e.Resume == "" {
		return ""
	}
	paused := cause.Paused(e.Queue)
	resume := ": " + paused.Remedy
	switch {
	case e.Reason == ReasonPaused:
		return resume
	case e.Reason == ReasonStore || !e.Until.After(e.Now): // no time is expected, or it has come
		return "; " + paused.Text + ", so it does not start" + resume
	default:
		return "; " + paused.Text + ", so it starts only after the pause, and not before " +
			envelope.ClockText(e.Until) + resume
	}
}

func (e Explanation) sentence() string {
	queue := "queue " + e.Queue
	var limit, place string
	if w := e.Waits; w != nil {
		limit, place = "limit "+w.Bucket, fmt.Sprintf("number %d of %d in its waitlist", w.Position, w.Of)
	}
	expected := ""
	if !e.Until.IsZero() && e.Resume == "" { // a pause says its own
		expected = ", expected to start " + e.when()
	}
	start := place + expected
	switch e.Reason {
	case ReasonPaused:
		return "is ready, but " + cause.Paused(e.Queue).Text
	case ReasonUnserved:
		return "is ready, but " + e.unserved()
	case ReasonReady:
		return "is ready: " + e.turn() + queue
	case ReasonRunning:
		return "is running" + clock("since", e.Since) + forTime(e.Now, e.Since) + on(e.Worker)
	case ReasonOrphaned:
		return e.orphanSentence()
	case ReasonLimit:
		return "waits for " + limit + ": it is " + start
	case ReasonPromoted:
		return "has its turn in " + limit + " and is on its way to a worker"
	case ReasonStore:
		return "waits because " + cause.Store(e.Waits.Bucket).Text + ": it is asked again " + e.when() +
			", or when the store answers"
	case ReasonBlocked:
		return e.blockedSentence(place, start)
	case ReasonInFlight:
		if e.Bucket != nil && e.Bucket.Forgotten > 0 {
			return fmt.Sprintf("waits: %s, for %s more; it is %s", cause.Forgotten(e.Waits.Bucket).Text,
				dispatcher.RoundText(e.Bucket.Forgotten), place)
		}
		return fmt.Sprintf("waits for one of %s of %s to end: it is %s", e.slots(), limit, place)
	case ReasonProvider:
		then := "runs again " + e.when()
		if e.Waits != nil {
			then = "is " + place + " of " + limit + expected
		}
		return "was refused by its provider" + times(e.Refusals) + ", and " + then + detail(e.Cause)
	case ReasonNet:
		return "waits for its limit but is in no waitlist: asynq delivers it " + e.when()
	case ReasonWorker:
		return "waits for a worker that can serve it, starts as soon as there is one, and is delivered again " + e.when() +
			detail(e.Cause)
	case ReasonScheduled:
		return "is scheduled for " + envelope.ClockText(e.Until) + ", " + e.when()
	case ReasonRetry:
		return e.retrySentence()
	case ReasonArchived:
		return e.archivedSentence()
	case ReasonCompleted:
		return "was done" + clock("at", e.Since)
	case ReasonGroup:
		return "waits for others of its group"
	}
	return "is " + e.State
}

// lostWorker is for a task whose last worker did not renew asynq's lease.
const lostWorker = "lost the worker that ran it, which was killed or could not reach Redis"

func (e Explanation) retrySentence() string {
	if e.LastError == asynq.ErrLeaseExpired.Error() {
		return lostWorker + ", and is tried again " + e.when()
	}
	return fmt.Sprintf("failed %s and is tried again %s", plural(e.Failures, "time"), e.when()) + detail(e.LastError)
}

func (e Explanation) archivedSentence() string {
	if e.LastError == asynq.ErrLeaseExpired.Error() {
		return lostWorker + ", had no retry left, and is in the archive"
	}
	return "is in the archive and does not run again" + detail(e.LastError+e.Note)
}

// blockedSentence says why nothing starts in the limit.
func (e Explanation) blockedSentence(place, start string) string {
	if why := cause.Stopped(e.Waits.Bucket, bucket.Reason(e.Bucket.Refusing)); why.Kind != "" {
		return fmt.Sprintf("waits: %s, for %s now; it is asked again %s, and the task is %s",
			why.Text, dispatcher.RoundText(e.Bucket.RefusingFor), in(e.Bucket.Blocked), place) + detail(e.Cause)
	}
	return fmt.Sprintf("waits: %s, for %s more; it is %s", cause.Blocked(e.Waits.Bucket).Text,
		dispatcher.RoundText(e.Bucket.Blocked), start)
}

// slots says how many calls its limit lets run at once, as far as that is known.
func (e Explanation) slots() string {
	if e.Bucket != nil {
		for _, m := range e.Bucket.Meters {
			if m.Kind == reservations.KindInFlight {
				return fmt.Sprintf("%v calls in flight", m.Cap())
			}
		}
	}
	return "the calls in flight"
}

// orphanSentence is for a task whose worker is gone. Only a worker that takes from the queue of the task puts it back,
// at its start or within a minute.
func (e Explanation) orphanSentence() string {
	const lost = "was running on a worker that is gone"
	left := max(0, e.Until.Sub(e.Now))
	when := "in " + dispatcher.RoundText(left)
	switch {
	case e.Workers == 0 && left == 0:
		return lost + ", and " + e.unserved() + ", and asynq puts the task back at once"
	case e.Workers == 0:
		return lost + ", and " + e.unserved() + ", and asynq puts the task back " + when + " at the earliest"
	case left == 0:
		when = "within a minute"
	default:
		when += " to " + dispatcher.RoundText(left+asynqdb.RecoverEvery)
	}
	return lost + ": asynq puts it back " + when + ", and another worker runs it again"
}

// unserved says that no worker takes from the queue, and what to do.
func (e Explanation) unserved() string {
	c := cause.Unserved(e.Queue, e.Elsewhere)
	return c.Text + ": " + c.Remedy
}

// when is "in 12.3s", or "now".
func (e Explanation) when() string { return in(e.Until.Sub(e.Now)) }

func in(d time.Duration) string {
	if d > time.Millisecond {
		return "in " + dispatcher.RoundText(d)
	}
	return "now"
}

// turn says how long a pending task's queue is.
func (e Explanation) turn() string {
	switch {
	case e.Before < 0:
		return "a worker takes it from "
	case e.Before == 0:
		return "it is the next in "
	default:
		return plural(e.Before, "task") + " before it in "
	}
}

// clock is a moment behind a word; empty where it is not known.
func clock(word string, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return " " + word + " " + envelope.ClockText(at)
}

func forTime(now, since time.Time) string {
	if since.IsZero() {
		return ""
	}
	return ", for " + dispatcher.RoundText(max(0, now.Sub(since)))
}

func on(worker string) string {
	if worker == "" {
		return ""
	}
	return " on " + worker
}

func times(n int) string {
	if n <= 1 {
		return ""
	}
	return fmt.Sprintf(" %d times in a row", n)
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// detail is the first line of a text, cut.
func detail(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	if text == "" {
		return ""
	}
	const most = 160
	if letters := []rune(text); len(letters) > most {
		text = string(letters[:most]) + "…"
	}
	return ": " + strings.TrimRight(text, ".")
}
