package batches

import "context"

// Stop is why the fleet has cancelled a batch by itself.
type Stop string

// StopFailures stops a batch that has as many failed requests as it may have.
const StopFailures Stop = "max_failures"

// Fails reports whether that many failed requests stop the batch.
func (b Batch) Fails(failed int) bool {
	return b.State == StateOpen && b.FailuresMost > 0 && failed-b.Excused >= b.FailuresMost
}

// Bound stops the batch if it has as many failed requests as it may have, and others without a result. It returns the
// record, and whether this call has stopped the batch.
func (c *Counter) Bound(ctx context.Context) (b Batch, stopped bool, err error) {
	p, err := c.Progress(ctx)
	if err != nil || !p.Fails(p.Failed) || p.Done+p.Failed >= p.Requests {
		return p.Batch, false, err
	}
	h, err := c.store.changeBatch(ctx, "stop", c.batch, func(h *batchHead) {
		if stopped = h.Fails(p.Failed); stopped { // it may have been cancelled or resumed meanwhile
			h.State, h.StoppedBy = StateCancelled, StopFailures
		}
	})
	return h.Batch, stopped && err == nil, err
}
