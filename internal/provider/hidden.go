package provider

import "time"

// hidden is a limit of requests that clients have to find out. Its user holds a lock.
type hidden struct {
	Hidden

	rate     float64 // when it is not halved
	refusals []time.Time
}

// at is the rate so long after the first accepted request.
func (h *hidden) at(since time.Duration) float64 {
	if since >= h.After && since < h.After+h.For {
		return h.rate / 2
	}
	return h.rate
}
