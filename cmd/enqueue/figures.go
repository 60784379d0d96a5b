package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/headway-go/headway/batches"
	"github.com/headway-go/headway/internal/asynqdb"
	"github.com/headway-go/headway/internal/config"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks/llm"
)

// figures are what people want to know of a batch.
type figures struct {
	Event     string    `json:"event,omitempty"`
	Batch     string    `json:"batch"`
	Name      string    `json:"name"`
	State     string    `json:"state"` // open, ended or cancelled
	Limit     string    `json:"limit"`
	Created   time.Time `json:"created"`
	Requests  int       `json:"requests"`
	Enqueued  int       `json:"enqueued_to_line"`
	Done      int       `json:"done"`
	Failed    int       `json:"failed"`
	Waiting   int       `json:"waiting"`   // without a result: queued, running, or not enqueued yet; of a cancelled batch those that run
	Cancelled int       `json:"cancelled"` // of a cancelled batch: have no result, and do not run
	Retried   int       `json:"retried"`
	Used      float64   `json:"tokens_used"`
	Reserved  float64   `json:"tokens_reserved"`
	Prompt    float64   `json:"prompt_tokens"`
	Answers   float64   `json:"completion_tokens"`
	Cost      *float64  `json:"cost,omitempty"`     // where prices are configured
	Unpriced  []string  `json:"unpriced,omitempty"` // models without a price
	Rates     []rate    `json:"rates,omitempty"`
	Left      *float64  `json:"seconds_left,omitempty"`
	LeftBy    string    `json:"left_by,omitempty"` // measured, limit or lease
	Lost      int       `json:"lost,omitempty"`    // where all that wait were running on workers that are gone: how many
	Queue     string    `json:"queue,omitempty"`
	Workers   *int      `json:"workers,omitempty"` // that take from the queue, where that was looked up
	Paused    bool      `json:"paused,omitempty"`  // the queue is
	lastEnded time.Time
	measured  bool          // the rates are of so long a time that a burst at the beginning does not count for much
	stalled   time.Duration // how long nothing has ended, if that is out of the ordinary
	lostIn    time.Duration // until asynq puts lost requests back, at the earliest
	unseen    int           // of the cancelled: not known to be taken back
	unsent    bool          // some of those may never have been enqueued
}

// rate is what a meter of the last limit gave lately, beside what it may give.
type rate struct {
	Meter   string        `json:"meter"`
	Taken   float64       `json:"taken"` // in Period, by the batch
	Allowed float64       `json:"allowed"`
	Period  time.Duration `json:"period_ns"`
}

// How an end is estimated.
const (
	byMeasure = "measured" // from what ended lately
	byLimit   = "limit"    // from what the limit allows: not sooner than that
	byLease   = "lease"    // from when asynq puts requests back whose workers are gone: not sooner than that
)

func newFigures(b batches.Batch, c batches.Counts) figures {
	f := figures{
		Batch: b.ID, Name: b.Name, State: string(b.State), Limit: b.Limit, Created: b.Created, Requests: b.Requests, Enqueued: b.Enqueued,
		Done: c.Done, Failed: c.Failed, Waiting: max(0, b.Requests-c.Done-c.Failed), Retried: c.Retried,
		Used: c.Usage.Used, Reserved: c.Usage.Reserved, Prompt: c.Usage.Prompt, Answers: c.Usage.Completion, Queue: b.Queue, lastEnded: c.Last,
	}
	switch {
	case b.State == batches.StateCancelled:
		f.cancel(b, c)
	case f.Waiting == 0 && b.State == batches.StateOpen:
		f.State = stateEnded
	}
	return f
}

// stateEnded is the state of a batch all of whose requests have a result.
const stateEnded = "ended"

// amount is what is taken of a meter. One that keeps its estimates is given back nothing where less was used. Of those that count input and output
// apart only what was used is known.
func amount(m reservations.Meter, c batches.Counts) (float64, bool) {
	switch m.Name {
	case llm.MeterRequests, llm.MeterRequestsPerDay:
		return float64(c.Done + c.Failed), true
	case llm.MeterTokens, llm.MeterTokensPerDay:
		if m.Settle == reservations.SettleKeep {
			return math.Max(c.Usage.Reserved, c.Usage.Used), true
		}
		return c.Usage.Used, true
	case llm.MeterInput:
		return c.Usage.Prompt, true
	case llm.MeterOutput:
		return c.Usage.Completion, true
	}
	return 0, false
}

// served adds what takes from its queue.
func (f *figures) served(by asynqdb.Serving) { f.Workers, f.Paused = &by.Workers, by.Paused }

// rests says that nothing works on it, so that no time can be told.
func (f *figures) rests() bool { return f.Paused || f.Workers != nil && *f.Workers == 0 }

// estimate adds rates and the end, if a worker takes from the queue. All is what there is in total, view the bucket, as far as it could be read, as
// lastView has it.
func (f *figures) estimate(all batches.Counts, l lately, view reservations.View) {
	if f.rests() {
		return
	}
	f.measured = l.within >= shortest
	floor := 0.
	ended := float64(all.Done + all.Failed)
	for _, m := range view.Meters {
		total, known := amount(m.Meter, all)
		if !known || m.Rate <= 0 || m.Period <= 0 {
			continue
		}
		r := rate{Meter: m.Name, Allowed: m.Rate, Period: m.Period}
		if recent, _ := amount(m.Meter, l.counts); l.within > 0 {
			r.Taken = recent / l.within.Seconds() * m.Period.Seconds()
		}
		f.Rates = append(f.Rates, r)
		each := 1.
		if m.Name != llm.MeterRequests && m.Name != llm.MeterRequestsPerDay {
			if ended == 0 {
				continue
			}
			each = total / ended
		}
		floor = math.Max(floor, (float64(f.Waiting)*each-math.Max(0, m.Level))/m.Rate*m.Period.Seconds())
	}
	if f.Waiting == 0 || f.Lost > 0 || f.State == string(batches.StateCancelled) {
		return
	}
	floor = math.Max(floor, view.Blocked.Seconds())
	switch {
	case l.enough():
		left := float64(f.Waiting) / float64(l.counts.Done+l.counts.Failed) * l.within.Seconds()
		f.Left, f.LeftBy = &left, byMeasure
		if floor > left {
			f.Left, f.LeftBy = &floor, byLimit
		}
	case floor > 0:
		f.Left, f.LeftBy = &floor, byLimit
	}
	// A slow limit lets requests end as rarely as that.
	l.gap = max(l.gap, usual*time.Duration(floor/float64(f.Waiting)*float64(time.Second)))
	if !f.lastEnded.IsZero() && l.stalled() {
		f.stalled = l.idle
	}
}

// price adds the cost.
func (f *figures) price(usage map[string]batches.Usage, prices map[string]config.Price) {
	if len(prices) == 0 {
		return
	}
	cost := 0.
	for model, u := range usage {
		p, known := prices[model]
		if !known && u.Prompt+u.Completion > 0 {
			f.Unpriced = append(f.Unpriced, model)
		}
		cost += (u.Prompt*p.Input + u.Completion*p.Output) / 1e6
	}
	f.Cost = &cost
}

// text is the figures on one line.
func (f *figures) text() string { return strings.Join(f.parts(), "; ") }

// parts are what is told of the figures, each for itself.
func (f *figures) parts() []string {
	parts := []string{fmt.Sprintf("%s of %s done, %s failed, %s", count(f.Done), count(f.Requests), count(f.Failed), f.left())}
	if f.Retried > 0 {
		parts[0] += fmt.Sprintf(" (%s retried)", count(f.Retried))
	}
	if text := f.unseenText(); text != "" {
		parts = append(parts, text)
	}
	var rates []string
	burst := "" // what is above the rate is what the bucket had saved, no breach of the limit
	for _, r := range f.Rates {
		if r.Taken > 1.05*r.Allowed {
			burst = " (burst)"
		}
		rates = append(rates, fmt.Sprintf("%s of %s %s/%s", amountText(r.Taken), amountText(r.Allowed), strings.ReplaceAll(r.Meter, "_", " "), periodText(r.Period)))
	}
	if len(rates) > 0 && f.Waiting > 0 && f.measured {
		parts = append(parts, strings.Join(rates, ", ")+burst)
	}
	if f.Used > 0 {
		parts = append(parts, fmt.Sprintf("%s tokens used, %s reserved", amountText(f.Used), amountText(f.Reserved)))
	}
	if f.Cost != nil {
		text := "cost " + costText(*f.Cost)
		if len(f.Unpriced) > 0 {
			text += fmt.Sprintf(" without %s, which has no price", strings.Join(f.Unpriced, ", "))
		}
		parts = append(parts, text)
	}
	return append(parts, f.end())
}

// end says when all is done, and how that is known.
func (f *figures) end() string {
	left := "the end is not known yet"
	if f.Left != nil {
		left = map[string]string{
			byMeasure: fmt.Sprintf("about %s left, at the measured rate", leftText(*f.Left)),
			byLimit:   fmt.Sprintf("at least %s left, by the limit", leftText(*f.Left)),
		}[f.LeftBy]
	}
	switch {
	case f.State == string(batches.StateCancelled):
		return "cancelled"
	case f.Waiting == 0:
		return "all have ended"
	case f.Paused:
		return fmt.Sprintf("nothing runs: queue %q is paused", f.Queue)
	case f.rests():
		return fmt.Sprintf("nothing runs: no worker takes from queue %q", f.Queue)
	case f.Lost > 0:
		return f.lostText()
	case f.stalled > 0:
		return fmt.Sprintf("%s; nothing has ended for %s: requests wait, take long, or come back from a worker that was killed", left, leftText(f.stalled.Seconds()))
	case f.lastEnded.IsZero():
		return left + "; nothing has ended yet"
	}
	return left
}

// endShort is end in a word or two.
func (f *figures) endShort() string {
	switch {
	case f.State != string(batches.StateOpen):
		return f.State
	case f.Paused:
		return "paused"
	case f.rests():
		return "no worker"
	case f.Lost > 0:
		return "worker gone"
	case f.stalled > 0:
		return "quiet for " + leftText(f.stalled.Seconds())
	case f.Left == nil:
		return "not known"
	}
	return map[string]string{byMeasure: "about ", byLimit: "at least "}[f.LeftBy] + leftText(*f.Left)
}

func leftText(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d > 10*time.Minute:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	case d > time.Minute:
		return d.Round(10 * time.Second).String()
	}
	return max(time.Second, d.Round(time.Second)).String()
}

func periodText(d time.Duration) string {
	_, unit, _ := strings.Cut(config.RateText(1, d), "/")
	return unit
}

// count is a number with commas.
func count(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// costText has as many digits as a small amount needs.
func costText(cost float64) string {
	digits := 2
	for least := 1.; cost > 0 && cost < least && digits < 6; least /= 10 {
		digits++
	}
	return strconv.FormatFloat(cost, 'f', digits, 64)
}

// amountText is a number of tokens as people read it.
func amountText(n float64) string {
	switch {
	case n >= 1e7:
		return fmt.Sprintf("%.1fM", n/1e6)
	case n >= 1e4:
		return fmt.Sprintf("%.0fk", n/1e3)
	case n >= 10 || n == math.Trunc(n):
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.1f", n)
}
