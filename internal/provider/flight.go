package provider

import "time"

// flight counts the calls that run, and refuses one that would be too many. A zero most limits nothing. Its user holds
// a lock.
type flight struct {
	most, runs float64
}

// flightWait is what a refusal names: when a call ends is not known.
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
