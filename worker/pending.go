package worker

import (
	"context"
	"fmt"
	"strings"
	"sync"
)

// pending holds what has to end before the process may: handlers and settlements. Its zero value is ready.
type pending struct {
	mu    sync.Mutex // guards what is below
	left  map[*entry]struct{}
	ended chan struct{} // closed when something ended; nil if no caller waits
}

type entry struct {
	kind kind
	id   string
}

// kind is what has to end, as the error of Stop calls it.
type kind string

const (
	kindHandler    kind = "handlers still run"
	kindSettlement kind = "settlements are open"
)

// add counts something in until the returned func is called, once.
func (p *pending) add(k kind, id string) (done func()) {
	e := &entry{kind: k, id: id}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left == nil {
		p.left = map[*entry]struct{}{}
	}
	p.left[e] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.left, e)
		if p.ended != nil {
			close(p.ended)
			p.ended = nil
		}
	}
}

// wait returns nil when nothing is left, or the error of late when ctx ended before.
func (p *pending) wait(ctx context.Context) error {
	for {
		p.mu.Lock()
		if len(p.left) == 0 {
			p.mu.Unlock()
			return nil
		}
		if p.ended == nil {
			p.ended = make(chan struct{})
		}
		ended := p.ended
		p.mu.Unlock()
		select {
		case <-ended:
		case <-ctx.Done():
			return p.late(ctx)
		}
	}
}

// running is how many handlers run.
func (p *pending) running() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for left := range p.left {
		if left.kind == kindHandler {
			n++
		}
	}
	return n
}

// late names what is left when ctx has ended: handlers that still run, whose tasks are requeued, and open settlements,
// which leave their charges as estimated. The error matches ErrLeftBehind and why ctx ended; nil when nothing is left.
func (p *pending) late(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	ids := map[kind][]string{}
	for left := range p.left {
		ids[left.kind] = append(ids[left.kind], left.id)
	}
	var parts []string
	for _, k := range []kind{kindHandler, kindSettlement} {
		if n := len(ids[k]); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s (tasks %s)", n, k, list(ids[k])))
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s: %w", ErrLeftBehind, strings.Join(parts, ", "), context.Cause(ctx))
}
