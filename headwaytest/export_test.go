package headwaytest

import "time"

// SetWatch sets the real times of the watchdog.
func SetWatch(every, still, busy time.Duration) {
	watch.every, watch.still, watch.busy = every, still, busy
}
