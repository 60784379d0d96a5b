package provider

import "time"

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
