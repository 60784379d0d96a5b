package worker

import (
	"context"
	"sync"
	"time"
)

// probePatience is how long tasks wait for the probe of a store that was down. A store that is back answers within
// it; the tasks need not go back to their waitlists then.
const probePatience = 50 * time.Millisecond

// outage remembers that the store did not answer. While it is down only one task at a time asks; the others are sent
// back, so that unlimited tasks find a free handler. The zero value is a store that is up.
type outage struct {
	mu    sync.Mutex    // guards what is below
	cause error         // nil while the store is up
	probe chan struct{} // nil without a probe; closed by its answer
}

// admit returns nil when the caller may ask the store, and has to report then; otherwise why the store is taken to be
// down.
func (o *outage) admit(ctx context.Context) error {
	o.mu.Lock()
	cause, probe := o.cause, o.probe
	if cause != nil && probe == nil {
		o.probe = make(chan struct{})
	}
	o.mu.Unlock()
	if cause == nil || probe == nil {
		return nil
	}
	patience := time.NewTimer(probePatience)
	defer patience.Stop()
	select {
	case <-probe:
	case <-patience.C:
	case <-ctx.Done():
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.cause
}

// report ends a call of the store; nil means that the store answered. It returns whether that began or ended an
// outage.
func (o *outage) report(err error) (turned bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	turned = (o.cause == nil) != (err == nil)
	o.cause = err
	o.answered()
	return turned
}

// pass takes an admission back: nothing was learned.
func (o *outage) pass() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answered()
}

// answered ends the wait for the probe. It requires that mu is held.
func (o *outage) answered() {
	if o.probe != nil {
		close(o.probe)
		o.probe = nil
	}
}
