// Package seldom lets one of many warnings of a kind through.
package seldom

import (
	"sync/atomic"
	"time"
)

// every is how long a warning stands for others like it.
const every = time.Minute

// Warning is one kind of warning. The zero value is due. Safe for concurrent use.
type Warning struct{ next atomic.Int64 }

// Due says whether it is time for a warning: once a minute.
func (w *Warning) Due(now time.Time) bool {
	next := w.next.Load()
	return now.UnixNano() >= next && w.next.CompareAndSwap(next, now.Add(every).UnixNano())
}
