package waitlist

import (
	"context"
	"time"
)

// OnDuty returns the ID of the process on duty as dispatcher, or "", and the end of its duty without another look.
func (w *Waitlist) OnDuty(ctx context.Context) (id string, until, now time.Time, err error) {
	r, err := w.run(ctx, "read the dispatcher", w.scripts.onDuty)
	if err != nil {
		return "", time.Time{}, time.Time{}, err
	}
	now, id, until = r.moment(), r.text(), r.moment()
	return id, until, now, r.err
}
