package simulate

import (
	"cmp"
	"slices"
	"time"

	"github.com/headway-go/headway/reservations"
)

// Result is what became of the calls. Times are since the start.
type Result struct {
	// Calls is how many there were. Of them, Done ended and Failed were refused too often; the others waited or ran when
	// the simulation ended.
	Calls, Done, Failed int
	// Refused counts the calls that the provider refused, each time.
	Refused int
	// Arrived is when the last call arrived, Started when the last one started, and Ended when the last one ended.
	Arrived, Started, Ended time.Duration
	// Waits are the ones of all started calls, and Flows the ones of each flow, by name.
	Waits Waits
	Flows []FlowWaits
	// Meters is the use of each meter of each bucket, the scarcest first.
	Meters []MeterUse
	// Waiting and Running are the most calls that waited and ran at once, and when that was first so.
	Waiting, Running Peak
	// Left is how many calls waited when the last one arrived.
	Left int
	// Series are samples over time.
	Series Series
}

// Peak is a largest number, and when it was reached.
type Peak struct {
	Most int
	At   time.Duration
}

// reach notes a number.
func (p *Peak) reach(n int, at time.Duration) {
	if n > p.Most {
		p.Most, p.At = n, at
	}
}

// FlowWaits are the waits of one flow. The name is empty for the calls without one.
type FlowWaits struct {
	Flow string
	Waits
}

// MeterUse is what one meter of a bucket did.
type MeterUse struct {
	// Limit and Key name the bucket, Meter its meter. Shard is the shard from 1 of a limit with several.
	Limit, Key string
	Shard      int
	Meter      string
	// Use is the part of all tokens that were taken until the last call started: of the ones of the full bucket and the
	// ones that came back. For calls in flight it is the part of the slots that was in use until the last call ended.
	// Blocks do not count. An adaptive meter is compared with its highest rate.
	Use float64
	// Tokens were taken in all, less what came back as unused. Zero for calls in flight.
	Tokens float64
	// Short is how long the first waiting call waited for this meter more than for any other one.
	Short time.Duration
	// Blocked is how long the bucket was blocked by refusals.
	Blocked time.Duration
}

// Bucket is the name of the bucket, as logs show it.
func (m MeterUse) Bucket() string {
	return reservations.BucketName{Limit: m.Limit, Key: m.Key, Shard: m.Shard}.String()
}

// Series are samples at times since the start. Waiting and Running are the most in the time since the sample before.
type Series struct {
	Times            []time.Duration
	Waiting, Running []float64
	// Meters are the tokens a second that the first 32 meters took, in the order of the first use of their buckets.
	Meters []MeterSeries
}

// MeterSeries is what one meter took, in tokens a second. Rate is what comes back a second.
type MeterSeries struct {
	Bucket, Meter string
	Rate          float64
	Taken         []float64
}

// Scarce is the scarcest meter: calls waited longest for it. Ok is false where no call waited for a meter.
func (r Result) Scarce() (m MeterUse, ok bool) {
	if len(r.Meters) == 0 || r.Meters[0].Short == 0 {
		return MeterUse{}, false
	}
	return r.Meters[0], true
}

// finish makes the result.
func (f *fleet) finished(calls []Call) Result {
	for _, b := range f.order {
		f.countShort(b)
	}
	f.series.advance(f.now + f.series.step)
	r := f.result
	r.Calls, r.Started, r.Ended = len(calls), f.last, f.ended
	if len(calls) > 0 {
		r.Arrived = calls[len(calls)-1].At
	}
	all, of := make([]time.Duration, len(f.waits)), make([][]time.Duration, len(f.names))
	for i, w := range f.waits {
		all[i] = w.time
		of[w.flow] = append(of[w.flow], w.time)
	}
	r.Waits = waitsOf(all)
	for i, name := range f.names {
		r.Flows = append(r.Flows, FlowWaits{Flow: name, Waits: waitsOf(of[i])})
	}
	slices.SortFunc(r.Flows, func(a, b FlowWaits) int { return cmp.Compare(a.Flow, b.Flow) })
	for _, b := range f.order {
		r.Meters = append(r.Meters, f.uses(b)...)
	}
	slices.SortStableFunc(r.Meters, func(a, b MeterUse) int {
		return cmp.Or(-cmp.Compare(a.Short, b.Short), -cmp.Compare(a.Use, b.Use))
	})
	r.Series = f.seriesOf()
	return r
}

// uses is the use of each meter of a bucket.
func (f *fleet) uses(b *box) (all []MeterUse) {
	for k, m := range b.rules.Meters {
		c := b.meters[k]
		u := MeterUse{
			Limit: b.at.Limit, Key: b.at.Key, Shard: b.at.Shard, Meter: m.Name, Tokens: c.consumed,
			Short: c.short, Blocked: b.blocked,
		}
		switch {
		case m.Filling.InFlight:
			c.busy += c.slots * (f.now - c.changed).Seconds()
			if room := m.Filling.Capacity * f.now.Seconds(); room > 0 {
				u.Use = c.busy / room
			}
		case f.starts > 0:
			last := f.config.Start.Add(f.last)
			room := m.Filling.Capacity + m.Returns(f.config.Start, last)
			if m.Filling.Period == 0 {
				room -= m.Returns(f.config.Start, f.config.Start.Add(min(b.blocked, f.last)))
			}
			used := c.consumed
			if b.epoch == f.starts {
				used += c.refunded
			}
			u.Use = used / max(room, used)
		}
		all = append(all, u)
	}
	return all
}

// seriesOf makes the time series.
func (f *fleet) seriesOf() (s Series) {
	r := f.series
	for i, at := range r.samples {
		s.Times = append(s.Times, time.Duration(i+1)*r.step)
		s.Waiting, s.Running = append(s.Waiting, float64(at.waiting)), append(s.Running, float64(at.calling))
	}
	for _, b := range f.order {
		for k, m := range b.rules.Meters {
			if m.Filling.InFlight || b.series+k >= metersMost {
				continue
			}
			line := MeterSeries{Bucket: b.name(), Meter: m.Name, Rate: m.RatePerSecond()}
			if m.Filling.Adaptive() {
				line.Rate = m.Filling.Most
			}
			for _, at := range r.samples {
				taken := 0.
				if b.series+k < len(at.taken) {
					taken = at.taken[b.series+k] / r.step.Seconds()
				}
				line.Taken = append(line.Taken, taken)
			}
			s.Meters = append(s.Meters, line)
		}
	}
	return s
}
