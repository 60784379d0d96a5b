package enqueue

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/fleet/cause"
	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/text/shell"
)

// text is the figures on one line.
func (f *figures) text() string { return strings.Join(f.parts(), "; ") }

// parts are the texts of the figures.
func (f *figures) parts() []string {
	parts := []string{fmt.Sprintf("%d of %d done, %d failed, %s", f.Done, f.Requests, f.Failed, f.left())}
	if f.Retried > 0 {
		parts[0] += fmt.Sprintf(" (%d retried)", f.Retried)
	}
	if f.unseen > 0 { // as after a cancel that was interrupted
		where := "may still be in the queue"
		if f.Unsent > 0 {
			where = "were never enqueued or may still be in the queue"
		}
		parts = append(parts, fmt.Sprintf("%d of the cancelled %s (`%s` deletes them)", f.unseen, where,
			shell.Command("headway cancel", f.ID)))
	}
	var rates []string
	for _, r := range f.Rates {
		rates = append(rates, r.text())
	}
	if len(rates) > 0 && f.Waiting > 0 && f.measured {
		parts = append(parts, strings.Join(rates, ", "))
	}
	if f.Used > 0 {
		parts = append(parts, fmt.Sprintf("%s tokens used, %s reserved", cli.Amount(f.Used), cli.Amount(f.Reserved)))
	}
	if f.Cost != nil {
		text := "cost " + costText(*f.Cost)
		if len(f.Unpriced) > 0 {
			text += fmt.Sprintf(" without %s, which has no price", strings.Join(f.Unpriced, ", "))
		}
		parts = append(parts, text)
	}
	end, _ := f.end()
	return append(append(parts, f.why()...), end)
}

// text is the rate beside the limit's. A rate above that is no violation: the bucket had saved a burst.
func (r rate) text() string {
	meter, per := strings.ReplaceAll(r.Meter, "_", " "), periodText(r.Period)
	if r.Taken > r.Allowed {
		return fmt.Sprintf("%s %s/%s: the limit's %s/%s and a saved burst", cli.Amount(r.Taken), meter, per,
			cli.Amount(r.Allowed), per)
	}
	return fmt.Sprintf("%s of %s %s/%s", cli.Amount(r.Taken), cli.Amount(r.Allowed), meter, per)
}

// errorShown is how many characters of the newest error are shown.
const errorShown = 200

// why is what keeps requests from an answer.
func (f *figures) why() (parts []string) {
	if f.Error != "" {
		parts = append(parts, fmt.Sprintf("last error, of %s: %s", cli.Plural(f.Errors, "request", "requests"),
			cli.FirstLine(f.Error, errorShown, " ...")))
	}
	if f.State != batches.StateOpen {
		return parts
	}
	if f.bucket.Kind != "" && f.Stopped == "" { // a stop is the end that is known
		parts = append(parts, f.bucket.Text+", for "+leftText(f.bucketFor.Seconds())+" more")
	}
	if f.Unsent > 0 {
		parts = append(parts, fmt.Sprintf("lines %d to %d are not enqueued: if their command has ended, `%s` goes on there",
			f.Enqueued+1, f.Enqueued+f.Unsent, f.resend()))
	}
	if f.Trouble != "" {
		parts = append(parts, "the queue can't be looked at: "+f.Trouble)
	}
	return parts
}

// left is what has no result yet, for people.
func (f *figures) left() string {
	if f.State != batches.StateCancelled {
		return fmt.Sprintf("%d waiting", f.Waiting)
	}
	text := fmt.Sprintf("%d cancelled", f.Cancelled)
	if f.Waiting > 0 {
		text += fmt.Sprintf(", %d running", f.Waiting)
	}
	return text
}

// end says when all is done, and how that is known. In short it is a word or two.
func (f *figures) end() (text, short string) {
	text, short = "the end is not known yet", "not known"
	if f.Left != nil && f.LeftBy == byMeasure {
		short = "about " + leftText(*f.Left)
		text = short + " left, at the measured rate"
	} else if f.Left != nil {
		short = "at least " + leftText(*f.Left)
		text = short + " left, by the limit"
	}
	switch {
	case f.State == batches.StateCancelled && f.StoppedBy != "":
		return fmt.Sprintf("stopped at %s (--max-failures): `%s` goes on",
			cli.Plural(f.FailuresMost, "failed request", "failed requests"), f.resend()), "stopped"
	case f.State == batches.StateCancelled:
		return "cancelled", "cancelled"
	case f.Ended != nil:
		return fmt.Sprintf("all have ended, the last at %s, after %s", f.Ended.UTC().Format(time.RFC3339),
			leftText(*f.Duration)), "ended"
	case f.Waiting == 0:
		return "all have ended", "ended"
	case f.Missing > 0:
		return fmt.Sprintf("%s not in the queue any more, as if Redis had lost its data: `%s` enqueues the rest again",
			cli.Plural(f.Missing, "request is", "requests are"), f.resend()), "not in the queue"
	case f.Paused:
		paused := cause.Paused(f.Queue)
		return paused.Text + "; " + paused.Remedy, "paused"
	case f.Lacking != "":
		return f.Lacking + "; " + f.remedy, "no worker"
	case f.rests():
		unserved := cause.Unserved(f.Queue, f.elsewhere)
		return unserved.Text + "; " + unserved.Remedy, "no worker"
	case f.Lost > 0:
		return fmt.Sprintf("nothing runs: %s on workers that are gone; asynq puts them back in %s to %s",
			cli.Plural(f.Lost, "request was", "requests were"), leftText(f.lostIn.Seconds()),
			leftText((f.lostIn + asynqdb.RecoverEvery).Seconds())), "worker gone"
	case f.Stopped != "":
		return fmt.Sprintf("%s, for %s now; it is asked again in %s; %s", f.bucket.Text, leftText(f.bucketFor.Seconds()),
			leftText(f.Blocked), f.bucket.Remedy), "stopped"
	case f.stalled > 0:
		quiet := leftText(f.stalled.Seconds())
		return fmt.Sprintf("%s; nothing has ended for %s: requests wait, take long, or come back from a worker that "+
			"was killed", text, quiet), "quiet for " + quiet
	case f.Last.IsZero():
		text += "; nothing has ended yet"
	}
	return text, short
}

// longest is more than any batch takes, in seconds, and less than a time.Duration can hold.
const longest = 9e9

func leftText(seconds float64) string {
	d := time.Duration(min(seconds, longest) * float64(time.Second))
	switch {
	case d > 10*time.Minute:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	case d > time.Minute:
		return d.Round(10 * time.Second).String()
	}
	return max(time.Second, d.Round(time.Second)).String()
}

func periodText(seconds float64) string {
	_, unit, _ := strings.Cut(cli.Rate(1, time.Duration(seconds*float64(time.Second))), "/")
	return unit
}

// costText has as many digits as a small amount needs.
func costText(cost float64) string {
	digits := 2
	for least := 1.; cost > 0 && cost < least && digits < 6; least /= 10 {
		digits++
	}
	return strconv.FormatFloat(cost, 'f', digits, 64)
}
