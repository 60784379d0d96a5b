package mongostore

import (
	lists "container/list"
	"sync"
	"time"
)

const (
	// memoryMax is how many buckets a Store remembers, those it used last.
	memoryMax = 1024
	// maxSkipped bounds how many calls are pipelines after a swap that did not match.
	maxSkipped = 256
	// forgiven is the number of swaps in a row that halves that again.
	forgiven = 16
)

// memory is what a Store knows of the buckets it used last, and how well swaps went there. Safe for concurrent use.
type memory struct {
	mu      sync.Mutex // guards what is below
	buckets map[string]*lists.Element
	recent  *lists.List // of *remembered, the last one used first
}

// remembered is one bucket in memory.
type remembered struct {
	name string
	known
	skip  int // calls that are pipelines before the next swap
	skips int // what skip becomes when the next swap does not match
	hits  int // swaps in a row
}

func newMemory() *memory { return &memory{buckets: map[string]*lists.Element{}, recent: lists.New()} }

// find returns what is known of the bucket, and the moment at which a swap would decide: zero where the call has to be a pipeline.
func (m *memory) find(name string, mode swapping, local func() time.Time) (k known, now time.Time, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.buckets[name]
	if !ok {
		return known{}, time.Time{}, false
	}
	m.recent.MoveToFront(e)
	r := e.Value.(*remembered) //nolint:forcetypeassert // nothing else is in the list
	if mode == swapNever || mode == swapAdaptive && (r.skip > 0 || !r.steady) {
		return r.known, time.Time{}, true
	}
	if local != nil {
		return r.known, time.UnixMilli(local().UnixMilli()), true
	}
	now, _ = r.now()
	return r.known, now, true
}

// swapped remembers what a swap has written.
func (m *memory) swapped(name string, k known) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.keep(name, k)
	if r.hits++; r.hits%forgiven == 0 {
		r.skips /= 2
	}
}

// folded remembers what a pipeline has written, or a swap of a bucket that was looked at.
func (m *memory) folded(name string, k known) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.keep(name, k)
	r.skip = max(0, r.skip-1)
}

// missed notes that a swap did not match: somebody else wrote.
func (m *memory) missed(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.buckets[name]
	if !ok {
		return
	}
	r := e.Value.(*remembered) //nolint:forcetypeassert // nothing else is in the list
	r.hits, r.steady = 0, false
	r.skips = min(max(1, 2*r.skips), maxSkipped)
	r.skip = r.skips
}

// forget drops what is known of the bucket, e.g. because an answer is missing.
func (m *memory) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.buckets[name]; ok {
		m.recent.Remove(e)
		delete(m.buckets, name)
	}
}

// keep writes k down, unless an answer that is newer was faster; the bucket that was not used for longest makes room.
func (m *memory) keep(name string, k known) *remembered {
	if e, ok := m.buckets[name]; ok {
		r := e.Value.(*remembered) //nolint:forcetypeassert // nothing else is in the list
		if r.bucket.Generation != k.bucket.Generation || r.bucket.Version < k.bucket.Version {
			r.known = k
		}
		return r
	}
	if m.recent.Len() >= memoryMax {
		oldest := m.recent.Back()
		delete(m.buckets, m.recent.Remove(oldest).(*remembered).name) //nolint:forcetypeassert // nothing else is in the list
	}
	r := &remembered{name: name, known: k}
	m.buckets[name] = m.recent.PushFront(r)
	return r
}
