package waitlist

import (
	"context"
	"time"
)

// Listen calls look, from one goroutine, when the next look is due earlier than before: in d. It returns at once. Messages can be lost,
// so the dispatcher also looks after Look.Rest. The stop function ends the listening and waits for it.
func (w *Waitlist) Listen(ctx context.Context, look func(d time.Duration)) (stop func()) {
	panic("not written")
}
