package provider

import (
	"math"
	"time"
)

// rounding is the tolerance when room is judged: the error of a few float additions, far below one token.
const rounding = 1e-6

// meter is one token bucket. A meter with a rate of zero limits nothing. Callers hold a lock.
type meter struct {
	quota Quota
	full  float64 // quota.Capacity plus slack
	level float64
	at    time.Time // the time of level
}

func newMeter(quota Quota, slack time.Duration, now time.Time) *meter {
	full := quota.Capacity + quota.Rate*slack.Seconds()
	return &meter{quota: quota, full: full, level: full, at: now}
}

func (m *meter) limited() bool { return m.quota.Rate > 0 }

// fill adds the refill since the last call. A time before the last one changes nothing.
func (m *meter) fill(now time.Time) {
	if passed := now.Sub(m.at); passed > 0 {
		m.level = min(m.full, m.level+passed.Seconds()*m.quota.Rate)
		m.at = now
	}
}

func (m *meter) hasRoom(need float64) bool {
	return !m.limited() || m.level+rounding >= need
}

// add changes the level by n: negative to take, positive to give back. It never rises above full.
func (m *meter) add(n float64) {
	m.level = min(m.full, m.level+n)
}

// wait is the time until the level has risen to need, or to full if need is larger than full.
func (m *meter) wait(need float64) time.Duration {
	if !m.limited() {
		return 0
	}
	short := max(0, min(need, m.full)-m.level)
	return time.Duration(math.Ceil(short / m.quota.Rate * float64(time.Second)))
}

// limits returns the limit for error texts, the current level, and the largest possible level.
func (m *meter) limits() (capacity, level, largest float64) { return m.quota.Capacity, m.level, m.full }

// window counts requests in fixed windows. A window with a quota of zero limits nothing. Callers hold a lock.
type window struct {
	quota  WindowQuota
	slack  time.Duration
	number int64   // of the current window, since the Unix epoch
	left   float64 // in the current window
	before float64 // in the window before, while the slack lasts
	now    time.Time
}

func newWindow(quota WindowQuota, slack time.Duration) *window {
	return &window{quota: quota, slack: slack, number: -1, left: quota.Requests}
}

func (w *window) limited() bool { return w.quota.Requests > 0 }

// fill begins the window of now. A time in an earlier window changes nothing.
func (w *window) fill(now time.Time) {
	if !w.limited() {
		return
	}
	number, since := w.numberOf(now), time.Duration(now.UnixNano()%int64(w.quota.Period))
	if number > w.number {
		w.before = w.left
		if number > w.number+1 {
			w.before = 0
		}
		w.number, w.left = number, w.quota.Requests
	}
	if since > w.slack {
		w.before = 0
	}
	w.now = now
}

func (w *window) hasRoom(need float64) bool {
	return !w.limited() || w.before >= need || w.left >= need
}

// add takes from the window before, while that still counts.
func (w *window) add(n float64) {
	if w.before >= -n {
		w.before += n
		return
	}
	w.left += n
}

// wait is the time until the next window, if there is no room.
func (w *window) wait(need float64) time.Duration {
	if w.hasRoom(need) {
		return 0
	}
	return w.quota.Period - time.Duration(w.now.UnixNano()%int64(w.quota.Period))
}

func (w *window) limits() (capacity, level, largest float64) {
	return w.quota.Requests, w.left, w.quota.Requests
}

func (w *window) numberOf(t time.Time) int64 { return t.UnixNano() / int64(w.quota.Period) }

// flight counts running calls, and refuses a call above most. A zero most limits nothing. Callers hold a lock.
type flight struct {
	most, runs float64
}

// flightWait is the time that a refusal names, because the end of a running call is unknown.
const flightWait = time.Second

func (f *flight) limited() bool             { return f.most > 0 }
func (f *flight) fill(time.Time)            {}
func (f *flight) hasRoom(need float64) bool { return !f.limited() || f.runs+need <= f.most }
func (f *flight) add(n float64)             { f.runs -= n }

func (f *flight) wait(need float64) time.Duration {
	if f.hasRoom(need) {
		return 0
	}
	return flightWait
}

func (f *flight) limits() (capacity, level, largest float64) { return f.most, f.most - f.runs, f.most }
