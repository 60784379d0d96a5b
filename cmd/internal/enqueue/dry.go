package enqueue

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/products/simulate"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/reservations"
)

// callTakes is how long a dry run lets a call take, as `headway simulate` does if nothing else is said.
const callTakes = 5 * time.Second

// forecast is what `headway batch --dry-run` prints. Tokens are the estimates that requests reserve.
type forecast struct {
	Event    string       `json:"event"`
	Requests int          `json:"requests"`
	Faulty   int          `json:"faulty"`
	Faults   []string     `json:"faults,omitempty"` // the first of them
	Meters   []meterTaken `json:"meters"`
	Scarce   *meterName   `json:"scarce"`  // the meter that requests wait for longest; null if no request waits
	Seconds  *float64     `json:"seconds"` // from the first start to the last end; null if some never start
	Call     float64      `json:"call_seconds"`
	Live     bool         `json:"live"`           // by the limits of the fleet, else of the file
	Cost     *float64     `json:"cost,omitempty"` // where prices are configured
	Unpriced []string     `json:"unpriced,omitempty"`

	from  *source
	name  string // of the file
	calls []simulate.Call
}

type meterName struct {
	Bucket string `json:"bucket"`
	Meter  string `json:"meter"`
}

// meterTaken is what all requests take from a meter of a bucket.
type meterTaken struct {
	meterName

	Limit    string  `json:"limit"` // in words
	Tokens   float64 `json:"tokens"`
	Capacity float64 `json:"capacity"`
	// OfLimit is in how much time the tokens come back.
	OfLimit float64 `json:"of_limit_seconds"`
}

func newForecast(from *source, name string) *forecast {
	return &forecast{
		Event: "dry_run", Call: callTakes.Seconds(), Meters: []meterTaken{}, from: from, name: name,
	}
}

// add counts a good request.
func (f *forecast) add(r request) {
	f.calls = append(f.calls, simulate.Call{Charges: r.Charges(), Latency: callTakes, Line: r.line.Number})
}

// complete plays the requests against the limits, from start on and with full buckets.
func (f *forecast) complete(r result, b *bill, start time.Time) error {
	f.Requests, f.Faulty, f.Faults = r.Requests, r.Faulty, r.Faults
	f.Cost, f.Unpriced = b.Cost, b.Unpriced
	f.sum()
	if len(f.calls) == 0 {
		return nil
	}
	played, err := simulate.Run(f.from.config.Limits, f.calls, simulate.Config{Start: start, Large: true})
	if err != nil {
		return fmt.Errorf("estimate the duration: %w", err)
	}
	if played.Done == played.Calls {
		seconds := played.Ended.Seconds()
		f.Seconds = &seconds
	}
	if m, ok := played.Scarce(); ok {
		f.Scarce = &meterName{m.Bucket(), m.Meter}
	}
	return nil
}

// sum adds the tokens of each meter. A meter of calls in flight has none.
func (f *forecast) sum() {
	for i, b := range f.from.buckets {
		for _, m := range b.limit.Meters {
			if m.Kind == reservations.KindInFlight {
				continue
			}
			taken := meterTaken{meterName: meterName{b.String(), m.Name}, Limit: register.MeterLine(m), Capacity: m.Cap()}
			for _, c := range f.calls {
				taken.Tokens += c.Charges[i].Tokens[m.Name]
			}
			if rate := math.Max(m.Rate, m.Adaptive.Max); rate > 0 {
				taken.OfLimit = taken.Tokens / rate * m.Period.Seconds()
			}
			f.Meters = append(f.Meters, taken)
		}
	}
}

// text is the forecast for people.
func (f *forecast) text() string {
	lines := []string{fmt.Sprintf("dry run of %s: %s for limit %s, %s; nothing was enqueued", f.name,
		cli.Plural(f.Requests, "request", "requests"), f.from, cli.Plural(f.Faulty, "faulty line", "faulty lines"))}
	rows := [][]string{{"METER", "ESTIMATED", "LIMIT", "TAKES"}}
	for _, m := range f.Meters {
		rows = append(rows, []string{
			m.Bucket + " " + m.Meter, cli.Amount(m.Tokens), m.Limit, leftText(m.OfLimit) + " of the limit",
		})
	}
	lines = append(append(lines, ""), cli.Aligned(rows)...)
	scarce := "no meter is scarce"
	if f.Scarce != nil {
		scarce = "the scarce meter is " + f.Scarce.Bucket + " " + f.Scarce.Meter
	}
	duration := "never: some requests would still wait after 10 years"
	if f.Seconds != nil {
		duration = "about " + leftText(*f.Seconds)
	}
	lines = append(lines, "", fmt.Sprintf("duration  %s; %s", duration, scarce))
	if each := f.from.config.Concurrency; each > 0 && f.Seconds != nil && *f.Seconds > 0 {
		calls := math.Ceil(float64(len(f.calls)) * f.Call / *f.Seconds)
		lines = append(lines, fmt.Sprintf("workers   %.0f of concurrency %d, because about %.0f calls run at once",
			math.Ceil(calls/float64(each)), each, calls))
	}
	if f.Cost != nil {
		cost := "at most about " + costText(*f.Cost)
		if len(f.Unpriced) > 0 {
			cost += fmt.Sprintf(" without %s, which has no price", strings.Join(f.Unpriced, ", "))
		}
		lines = append(lines, "cost      "+cost)
	}
	if f.Live {
		lines = append(lines, "limits    of the live fleet, with the rates that are set")
	}
	return strings.Join(append(lines, "", fmt.Sprintf("The duration is for full buckets that no other task uses, and "+
		"calls of %v that use all that they reserve. Calls that use less end sooner.", callTakes)), "\n")
}

// rehearse is `headway batch --dry-run`: it reads the file, and enqueues nothing. Start is when the requests may start.
func (j *batchJob) rehearse(ctx context.Context, start time.Time) error {
	live, err := j.goLive(ctx)
	if err != nil {
		return err
	}
	j.plan = newForecast(j.from, j.name)
	j.plan.Live = live
	if err := j.read(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := j.plan.complete(j.result, j.bill, start); err != nil { //nolint:contextcheck // it has no I/O
		return err
	}
	faulty := cmp.Or(j.refused(), j.within(), j.leftOut())
	if j.asJSON || j.result.Requests > 0 {
		if err := cli.Print(j.env.Out, j.asJSON, j.plan, j.plan.text()); err != nil {
			return err
		}
	}
	return faulty
}
