package packed

import (
	"math"
	"time"
)

// Milliseconds returns a stored time: zero instead of a negative one, and at most the longest time.Duration.
func Milliseconds(ms int64) time.Duration {
	return time.Duration(min(max(0, ms), math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}
