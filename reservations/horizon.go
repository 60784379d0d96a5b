package reservations

import (
	"fmt"
	"math"
	"time"
)

// horizonsApart is how many times further one meter may plan ahead than another before that is worth a warning.
const horizonsApart = 10

// WaitSlack is the last part of MaxWait that only returning tickets may use, as Meter.Slack is of MaxReserved: 250 ms, at most a quarter.
func (l Limit) WaitSlack() time.Duration { return min(Hold, l.MaxWait/4) }

// longest is how many seconds ahead the plan may promise, less slacks times its slack.
func (l Limit) longest(slacks float64) float64 {
	if l.MaxWait == 0 {
		return math.Inf(1)
	}
	return l.MaxWait.Seconds() - slacks*l.WaitSlack().Seconds()
}

// Warnings says, one sentence each, what of a valid limit is allowed and probably not meant: the shortest horizon of all meters holds for all
// of them, so with horizons that lie far apart the longer ones say nothing; a window longer than MaxWait hands out tickets for most of its length; and headrooms that are too large or too small.
func (l Limit) Warnings() []string {
	var warnings []string
	near, far := -1, -1
	horizon := func(k int) float64 { return l.Meters[k].MaxReserved / l.Meters[k].RatePerSecond() }
	for k, m := range l.Meters {
		if m.MaxReserved != Unlimited && (near < 0 || horizon(k) < horizon(near)) {
			near = k
		}
		if m.MaxReserved != Unlimited && (far < 0 || horizon(k) > horizon(far)) {
			far = k
		}
		if m.windowed() && l.MaxWait > 0 && m.Period > l.MaxWait {
			warnings = append(warnings, fmt.Sprintf("limit %q: a window of %s lasts %v, longer than max_wait (%v): once it is used up, tasks get tickets until %v before it ends",
				l.Name, m.Name, m.Period, l.MaxWait, l.MaxWait))
		}
	}
	if near >= 0 && horizon(far) > horizonsApart*horizon(near) {
		warnings = append(warnings, fmt.Sprintf("limit %q: max_reserved of %s is %v ahead, that of %s %v: the shorter one counts for both; max_wait bounds all meters alike",
			l.Name, l.Meters[near].Name, seconds(horizon(near)).Round(time.Millisecond), l.Meters[far].Name, seconds(horizon(far)).Round(time.Millisecond)))
	}
	return append(warnings, l.headroomWarnings()...)
}
