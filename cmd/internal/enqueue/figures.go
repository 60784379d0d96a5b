package enqueue

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	rules "github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/fleet/cause"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/internal/state"
	"github.com/headway-go/headway/internal/text/shell"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks/llm"
)

// figures are what people want to know of a batch. Its State may be StateEnded.
type figures struct {
	Event string `json:"event,omitempty"`
	batches.Progress

	// without a result: queued, running, or not enqueued yet; of a cancelled batch only running requests
	Waiting   int      `json:"waiting"`
	Cancelled int      `json:"cancelled"`          // of a cancelled batch: have no result, and do not run
	Cost      *float64 `json:"cost,omitempty"`     // where prices are configured
	Unpriced  []string `json:"unpriced,omitempty"` // models without a price
	Rates     []rate   `json:"rates,omitempty"`
	Left      *float64 `json:"seconds_left,omitempty"`
	LeftBy    string   `json:"left_by,omitempty"` // measured, limit or lease
	// of a batch whose requests have all ended
	Ended    *time.Time `json:"ended,omitempty"`
	Duration *float64   `json:"seconds,omitempty"`         // from created to ended
	Blocked  float64    `json:"blocked_seconds,omitempty"` // the provider refuses calls for so long
	Stopped  string     `json:"stopped,omitempty"`         // why only people can end that
	Unsent   int        `json:"lines_not_enqueued,omitempty"`
	causes

	bucket    cause.Cause   // why nothing starts in the last limit
	bucketFor time.Duration // and for how long

	measured bool          // the rates cover enough time to outweigh a burst at the beginning
	stalled  time.Duration // how long no request has ended; zero if that is ordinary
	unseen   int           // of the cancelled: not known to be deleted
}

// causes are why requests of a batch wait or fail.
type causes struct {
	Workers   *int   `json:"workers,omitempty"` // that take from the queue, where that was looked up
	elsewhere int    // workers that take from other queues only
	Paused    bool   `json:"paused,omitempty"`  // the queue is
	Lacking   string `json:"lacking,omitempty"` // what the next task needs and no live worker has, or one returned it for
	remedy    string // ends Lacking
	// requests that have no result, and whose tasks are not in the queue
	Missing int `json:"not_in_queue,omitempty"`
	// where all that wait were running on workers that are gone: how many
	Lost   int           `json:"lost,omitempty"`
	lostIn time.Duration // until asynq puts them back, at the earliest; asynqdb.RecoverEvery later at the latest
	// the newest error, and how many requests without a good answer have it or one with the same status
	Error   string `json:"last_error,omitempty"`
	Errors  int    `json:"last_error_requests,omitempty"`
	Trouble string `json:"trouble,omitempty"` // why the queue could not be looked at
}

// rate is what a meter of the last limit gave lately, beside what it may give.
type rate struct {
	Meter   string  `json:"meter"`
	Taken   float64 `json:"taken"` // in Period, by the batch
	Allowed float64 `json:"allowed"`
	Period  float64 `json:"period_seconds"`
}

// How an end is estimated.
const (
	byMeasure = "measured" // from what ended lately
	byLimit   = "limit"    // from what the limit allows: not sooner than that
	byLease   = "lease"    // from when asynq puts requests back whose workers are gone: not sooner than that
)

func newFigures(p batches.Progress) figures {
	f := figures{Progress: p, Waiting: max(0, p.Requests-p.Done-p.Failed), Unsent: max(0, p.Lines-p.Enqueued)}
	switch {
	case p.State == batches.StateCancelled: // a request without a result starts no more: it is cancelled, unless it runs
		f.Cancelled, f.Waiting = f.Waiting, 0
		f.unseen = max(0, f.Cancelled-p.Unanswered)
	case f.Waiting == 0:
		f.State = batches.StateEnded
		if last := p.Last.UTC(); !last.IsZero() && !p.Created.IsZero() {
			took := max(0, last.Sub(p.Created).Seconds())
			f.Ended, f.Duration = &last, &took
		}
	}
	return f
}

// amount is what the batch takes from a meter. A meter that keeps its estimates refunds nothing if less was used. For
// meters that count input and output apart, only the used tokens are known.
func amount(m reservations.Meter, c batches.Counts) (float64, bool) {
	switch m.Name {
	case llm.MeterRequests, llm.MeterRequestsPerDay:
		return float64(c.Done + c.Failed), true
	case llm.MeterTokens, llm.MeterTokensPerDay:
		if m.Settle == reservations.SettleKeep {
			return math.Max(c.Reserved, c.Used), true
		}
		return c.Used, true
	case llm.MeterInput:
		return c.Prompt, true
	case llm.MeterOutput:
		return c.Completion, true
	}
	return 0, false
}

// because adds the causes, which may be some seconds older.
func (f *figures) because(c causes) {
	f.causes = c
	f.Missing = min(c.Missing, f.Waiting)
	if c.rests() || c.Lost < f.Waiting {
		f.Lost = 0
	} else if left := c.lostIn.Seconds(); c.Lost > 0 {
		f.Left, f.LeftBy = &left, byLease
	}
}

// errorOnly are the causes of failures: why requests wait is to be asked for again.
func (c *causes) errorOnly() causes { return causes{Error: c.Error, Errors: c.Errors} }

// gone returns how many requests of an open batch wait and are not in the queue, where all is counted that is in the
// queue. Requests that were never enqueued are none of them.
func (f *figures) gone(tasks int) int { return max(0, f.Waiting-f.Unsent-tasks) }

// resend is the command that enqueues the file of the batch again.
func (f *figures) resend() string {
	var flags []string
	for limit := range strings.SplitSeq(f.Limit, batches.LimitsBetween) {
		flags = append(flags, "--limit", limit)
	}
	if f.Queue != "" && f.Queue != "default" {
		flags = append(flags, "--queue", f.Queue)
	}
	if f.Model != "" {
		flags = append(flags, "--model", f.Model)
	}
	if f.FailuresMost > 0 { // left out, nothing would stop it
		flags = append(flags, "--max-failures", strconv.Itoa(f.FailuresMost))
	}
	name := f.Name
	if name == standardInput {
		name = "-"
	}
	return shell.Command("headway batch", name, flags...)
}

// rests says that nothing works on the batch, so that no end can be estimated.
func (c *causes) rests() bool {
	return c.Paused || c.Workers != nil && *c.Workers == 0 || c.Lacking != ""
}

// estimate adds rates and the end, if a worker takes from the queue. View is the bucket, as far as it could be read, as
// lastView has it.
func (f *figures) estimate(l batches.Pace, view reservations.View) {
	if f.rests() {
		return
	}
	f.measured = l.Within >= batches.MeasuredLeast
	floor := 0.
	ended := float64(f.Done + f.Failed)
	for _, m := range view.Meters {
		total, known := amount(m.Meter, f.Counts)
		if !known || m.Current <= 0 || m.Period <= 0 {
			continue
		}
		r := rate{Meter: m.Name, Allowed: m.Current, Period: m.Period.Seconds()}
		if recent, _ := amount(m.Meter, l.Ended); l.Within > 0 {
			r.Taken = recent / l.Within.Seconds() * r.Period
		}
		f.Rates = append(f.Rates, r)
		each := 1.
		if m.Name != llm.MeterRequests && m.Name != llm.MeterRequestsPerDay {
			if ended == 0 {
				continue
			}
			each = total / ended
		}
		floor = math.Max(floor, (float64(f.Waiting)*each-math.Max(0, m.Level))/m.Current*m.Period.Seconds())
	}
	if f.Waiting == 0 || f.Lost > 0 || f.State == batches.StateCancelled {
		return
	}
	f.Blocked, f.Stopped = view.Blocked.Seconds(), rules.Reason(view.Refusing).Sentence()
	f.bucket, f.bucketFor = state.NewBucket(view).Cause()
	floor = math.Max(floor, f.Blocked)
	measured, ok := l.Left(f.Waiting)
	switch {
	case ok:
		left := measured.Seconds()
		f.Left, f.LeftBy = &left, byMeasure
		if floor > left {
			f.Left, f.LeftBy = &floor, byLimit
		}
	case floor > 0:
		f.Left, f.LeftBy = &floor, byLimit
	}
	// A slow limit lets requests end as rarely as that.
	l.Gap = max(l.Gap, batches.UsualPauses*time.Duration(floor/float64(f.Waiting)*float64(time.Second)))
	if !f.Last.IsZero() && l.Stalled() {
		f.stalled = l.Idle
	}
}

// price adds the cost.
func (f *figures) price(prices map[string]config.Price) {
	if len(prices) == 0 {
		return
	}
	cost := 0.
	for _, model := range slices.Sorted(maps.Keys(f.Models)) {
		u := f.Models[model]
		p, known := prices[model]
		if !known && u.Prompt+u.Completion > 0 {
			f.Unpriced = append(f.Unpriced, model)
		}
		cost += (u.Prompt*p.Input + u.Completion*p.Output) / 1e6
	}
	f.Cost = &cost
}

// run counts n requests of a cancelled batch as running.
func (f *figures) run(n int) {
	n = min(n, f.Cancelled)
	f.Cancelled, f.Waiting, f.unseen = f.Cancelled-n, f.Waiting+n, max(0, f.unseen-n)
}
