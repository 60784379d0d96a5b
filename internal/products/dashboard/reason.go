package dashboard

import "github.com/headway-go/headway/scheduler"

// reasons are all reasons with the titles that they have on the page, reasons of waiting tasks first.
func reasons() [][2]string {
	return [][2]string{
		{string(scheduler.ReasonLimit), "Waits for its limit"},
		{string(scheduler.ReasonBlocked), "Waits: its limit is blocked"},
		{string(scheduler.ReasonInFlight), "Waits for a call in flight to end"},
		{string(scheduler.ReasonProvider), "Was refused by its provider"},
		{string(scheduler.ReasonPromoted), "Promoted: on its way to a worker"},
		{string(scheduler.ReasonStore), "Waits: its bucket could not be asked"},
		{string(scheduler.ReasonNet), "Waits outside of a waitlist"},
		{string(scheduler.ReasonWorker), "Was returned by a worker that can't serve it"},
		{string(scheduler.ReasonScheduled), "Scheduled"},
		{string(scheduler.ReasonRetry), "Waits for its next attempt"},
		{string(scheduler.ReasonReady), "Ready"},
		{string(scheduler.ReasonPaused), "Ready, in a paused queue"},
		{string(scheduler.ReasonUnserved), "Ready, but no worker takes from its queue"},
		{string(scheduler.ReasonRunning), "Runs"},
		{string(scheduler.ReasonOrphaned), "Ran on a worker that is gone"},
		{string(scheduler.ReasonGroup), "Waits for its group"},
		{string(scheduler.ReasonArchived), "In the archive"},
		{string(scheduler.ReasonCompleted), "Done"},
	}
}

// titleOf names a reason, and so the present state of a task; empty for an unknown one.
func titleOf(r scheduler.Reason) string {
	for _, one := range reasons() {
		if one[0] == string(r) {
			return one[1]
		}
	}
	return ""
}
