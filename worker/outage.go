package worker

import "sync"

// outage remembers that the store did not answer. While it is down only one task at a time asks; the others are sent back
// at once, so that tasks without a limit find a free place to run. The zero value is a store that is up.
type outage struct {
	mu      sync.Mutex // guards what is below
	cause   error      // nil while the store is up
	probing bool
}

// admit returns nil when the caller may ask the store, and has to report then; otherwise why the store is taken to be down.
func (o *outage) admit() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cause == nil {
		return nil
	}
	if o.probing {
		return o.cause
	}
	o.probing = true
	return nil
}

// report tells how it went: nil when the store answered.
func (o *outage) report(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cause, o.probing = err, false
}

// pass takes an admission back: nothing was learned.
func (o *outage) pass() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.probing = false
}
