package scheduler

import (
	"sync"
	"time"
)

const (
	// outageDelayMin and outageDelayMax bound how long a bucket is left alone that could not be asked.
	outageDelayMin = time.Second
	outageDelayMax = 10 * time.Second
	// outageOver is how long after its last sign an outage is taken to be over.
	outageOver = 3 * outageDelayMax
	// outagesMost is how many buckets are remembered; beyond that all are forgotten.
	outagesMost = 4096
)

// outageDelay is how long a task waits when its bucket could not answer: as long as that has been so, within bounds,
// and up to as much again. Random is in [0, 1).
func outageDelay(lasted time.Duration, random float64) time.Duration {
	d := min(max(lasted, outageDelayMin), outageDelayMax)
	return d + time.Duration(random*float64(d))
}

// outages is how long buckets have not answered because the store is away, as far as this process has seen. The zero
// value is ready. Safe for concurrent use.
type outages struct {
	mu      sync.Mutex // guards buckets
	buckets map[string]outage
}

type outage struct{ since, last time.Time }

// lasted notes one more call without an answer.
func (o *outages) lasted(bucket string, now time.Time) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	known, ok := o.buckets[bucket]
	if !ok || now.Sub(known.last) > outageOver {
		known.since = now
	}
	if len(o.buckets) >= outagesMost && !ok {
		clear(o.buckets)
	}
	if o.buckets == nil {
		o.buckets = map[string]outage{}
	}
	known.last = now
	o.buckets[bucket] = known
	return now.Sub(known.since)
}

// over notes an answer, and says whether it ended an outage.
func (o *outages) over(bucket string) (ended bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, ended = o.buckets[bucket]
	delete(o.buckets, bucket)
	return ended
}

// forget notes that the outage of all buckets is over.
func (o *outages) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.buckets)
}
