package provider

import (
	"math"
	"time"
)

// rounding is forgiven when room is judged: the error of a few float additions, far below one token.
const rounding = 1e-6

// meter is one token bucket. A meter whose rate is zero limits nothing. Its user holds a lock.
type meter struct {
	quota Quota
	full  float64 // quota.Capacity and the slack
	level float64
	at    time.Time // level is as of this moment
}

func newMeter(quota Quota, slack time.Duration, now time.Time) *meter {
	full := quota.Capacity + quota.Rate*slack.Seconds()
	return &meter{quota: quota, full: full, level: full, at: now}
}

func (m *meter) limited() bool { return m.quota.Rate > 0 }

// fill adds what came back since the last call. A moment that lies before the last one changes nothing.
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

// wait is the time until the level has risen to need, or to full where need is more than fits.
func (m *meter) wait(need float64) time.Duration {
	if !m.limited() {
		return 0
	}
	short := max(0, min(need, m.full)-m.level)
	return time.Duration(math.Ceil(short / m.quota.Rate * float64(time.Second)))
}

// limits are the limit as it is told, what there is, and the most that could ever be.
func (m *meter) limits() (capacity, level, largest float64) { return m.quota.Capacity, m.level, m.full }
