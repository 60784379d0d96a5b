package record

import "time"

// Idle makes what the recorder has cached of a batch older, as after a time without a request of it.
func (r *Recorder) Idle(batch string, d time.Duration) {
	r.states.known.Change(batch, func(known *state) { known.asked = known.asked.Add(-d) })
}
