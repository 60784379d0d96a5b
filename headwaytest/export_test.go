package headwaytest

import "time"

// SetWatch sets when the watchdog gives a play up: after how many looks, and the real time between two. It returns what
// sets them back.
func SetWatch(every time.Duration, still, busy int) (reset func()) {
	was := watch
	watch.every, watch.still, watch.busy = every, still, busy
	return func() { watch = was }
}
