package worker

import (
	"context"
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

type kind string

const (
	kindHandler    kind = "handler"
	kindSettlement kind = "settlement"
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

// wait returns nil when nothing is left, or a *stopError when ctx ended before.
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

// late is the *stopError of what is left when ctx has ended; nil when nothing is left.
func (p *pending) late(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.left) == 0 {
		return nil
	}
	e := &stopError{Err: context.Cause(ctx)}
	for left := range p.left {
		switch left.kind {
		case kindHandler:
			e.Handlers = append(e.Handlers, left.id)
		case kindSettlement:
			e.Settlements = append(e.Settlements, left.id)
		}
	}
	return e
}
