// Package judge counts calls as the providers of APIs do: in token buckets, in fixed windows, and in flight. Tests and
// the demo judge fleets by it, so it shares no code with the rules of package bucket. Callers hold a lock.
package judge

import (
	"math"
	"time"
)

// Rounding is the tolerance when room is judged: the error of a few float additions, far below one token.
const Rounding = 1e-6

// Meter judges calls.
type Meter interface {
	// Limited reports whether the meter limits anything.
	Limited() bool
	// Fill lets time pass until now. It returns the room since the last call, in tokens (calls times seconds
	// for Flight). Unused is how much of it went unused for ever. A time before the last one changes nothing.
	Fill(now time.Time) (room, unused float64)
	// HasRoom reports whether a call that needs so much may start.
	HasRoom(need float64) bool
	// Add gives back, and takes if n is negative.
	Add(n float64)
	// Wait returns the time until there is room.
	Wait(need float64) time.Duration
	// Limits returns the limit for error texts, the room now, and the largest possible room.
	Limits() (capacity, level, largest float64)
}

// Bucket is a token bucket that starts full. A rate of zero limits nothing.
type Bucket struct {
	// Rate is the refill per second, Capacity the largest burst.
	Rate, Capacity float64
	// Level is the number of tokens now.
	Level float64

	full float64 // Capacity plus slack
	at   time.Time
}

// NewBucket returns a full bucket. It is larger than its capacity by the refill of the slack.
func NewBucket(rate, capacity float64, slack time.Duration, now time.Time) *Bucket {
	full := capacity + rate*slack.Seconds()
	return &Bucket{Rate: rate, Capacity: capacity, full: full, Level: full, at: now}
}

// Limited implements Meter.
func (b *Bucket) Limited() bool { return b.Rate > 0 }

// Fill implements Meter. Unused is the refill that a full bucket could not hold.
func (b *Bucket) Fill(now time.Time) (room, unused float64) {
	if passed := now.Sub(b.at); passed > 0 {
		room = passed.Seconds() * b.Rate
		unused = max(0, b.Level+room-b.full)
		b.Level = min(b.full, b.Level+room)
		b.at = now
	}
	return room, unused
}

// HasRoom implements Meter.
func (b *Bucket) HasRoom(need float64) bool { return !b.Limited() || b.Level+Rounding >= need }

// Add implements Meter. The level never rises above full.
func (b *Bucket) Add(n float64) { b.Level = min(b.full, b.Level+n) }

// Wait implements Meter: the time until the level has risen to need, or to full if need is larger than full.
func (b *Bucket) Wait(need float64) time.Duration {
	if !b.Limited() {
		return 0
	}
	short := max(0, min(need, b.full)-b.Level)
	return time.Duration(math.Ceil(short / b.Rate * float64(time.Second)))
}

// Limits implements Meter.
func (b *Bucket) Limits() (capacity, level, largest float64) { return b.Capacity, b.Level, b.full }

// Window counts in fixed windows. A quota of zero limits nothing.
type Window struct {
	// Quota is that of each window. Period is the length of a window, and Start the time since the Unix epoch at which
	// one begins.
	Quota         float64
	Period, Start time.Duration

	slack  time.Duration
	number int64   // of the current window
	left   float64 // in the current window
	before float64 // in the window before, while the slack lasts
	now    time.Time
}

// NewWindow returns an unused window. For the time of the slack, a call may count in the window before.
func NewWindow(quota float64, period, start, slack time.Duration) *Window {
	return &Window{Quota: quota, Period: period, Start: start, slack: slack, number: math.MinInt64, left: quota}
}

// Limited implements Meter.
func (w *Window) Limited() bool { return w.Quota > 0 }

// Fill implements Meter. Room is the quota of a window that ended, unused what was left of it.
func (w *Window) Fill(now time.Time) (room, unused float64) {
	if !w.Limited() {
		return 0, 0
	}
	number, since := w.Number(now), w.since(now)
	if number > w.number {
		if w.number != math.MinInt64 {
			room, unused = w.Quota, w.left
		}
		w.before = w.left
		if number > w.number+1 {
			w.before = 0
		}
		w.number, w.left = number, w.Quota
	}
	if since > w.slack || w.slack == 0 {
		w.before = 0
	}
	w.now = now
	return room, unused
}

// HasRoom implements Meter.
func (w *Window) HasRoom(need float64) bool {
	return !w.Limited() || w.before >= need || w.left >= need
}

// Add implements Meter. It takes from the window before, while that still counts.
func (w *Window) Add(n float64) {
	if w.before >= -n && n < 0 {
		w.before += n
		return
	}
	w.left = min(w.Quota, w.left+n)
}

// Wait implements Meter: the time until the next window, if there is no room.
func (w *Window) Wait(need float64) time.Duration {
	if w.HasRoom(need) {
		return 0
	}
	return w.Period - w.since(w.now)
}

// Limits implements Meter.
func (w *Window) Limits() (capacity, level, largest float64) { return w.Quota, w.left, w.Quota }

// Number returns the number of the window at a time.
func (w *Window) Number(t time.Time) int64 {
	since := t.UnixNano() - int64(w.Start)
	number := since / int64(w.Period)
	if since%int64(w.Period) < 0 {
		number--
	}
	return number
}

// since returns the time since the window of t began.
func (w *Window) since(t time.Time) time.Duration {
	return time.Duration(t.UnixNano() - int64(w.Start) - w.Number(t)*int64(w.Period))
}

// Flight counts running calls, and refuses a call above Most. A zero Most limits nothing.
type Flight struct {
	// Most is how many calls may run at once, Runs how many do.
	Most, Runs float64

	at time.Time
}

// flightWait is the time that a refusal names, because the end of a running call is unknown.
const flightWait = time.Second

// Limited implements Meter.
func (f *Flight) Limited() bool { return f.Most > 0 }

// Fill implements Meter.
func (f *Flight) Fill(now time.Time) (room, unused float64) {
	if passed := now.Sub(f.at); passed > 0 && !f.at.IsZero() && f.Limited() {
		room, unused = f.Most*passed.Seconds(), max(0, f.Most-f.Runs)*passed.Seconds()
	}
	if now.After(f.at) {
		f.at = now
	}
	return room, unused
}

// HasRoom implements Meter.
func (f *Flight) HasRoom(need float64) bool { return !f.Limited() || f.Runs+need <= f.Most }

// Add implements Meter.
func (f *Flight) Add(n float64) { f.Runs -= n }

// Wait implements Meter.
func (f *Flight) Wait(need float64) time.Duration {
	if f.HasRoom(need) {
		return 0
	}
	return flightWait
}

// Limits implements Meter.
func (f *Flight) Limits() (capacity, level, largest float64) { return f.Most, f.Most - f.Runs, f.Most }
