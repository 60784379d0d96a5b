package coalesce

import (
	"cmp"
	"context"
	"fmt"
)

// call makes one call for all requests of the callers, and answers each caller.
func (g *Group[K, Q, A]) call(key K, callers []*caller[Q, A]) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(callers[0].ctx), cmp.Or(g.Timeout, TimeoutDefault))
	defer cancel()
	requests := callers[0].requests
	if len(callers) > 1 {
		requests = make([]Q, 0, len(callers))
		for _, c := range callers {
			requests = append(requests, c.requests...)
		}
	}
	answers, err := g.safely(ctx, key, requests)
	if err == nil && len(answers) != len(requests) {
		err = fmt.Errorf("coalesce: the call returned %d answers to %d requests", len(answers), len(requests))
	}
	for _, c := range callers {
		r := reply[A]{err: err}
		if n := len(c.requests); err == nil {
			r.answers, answers = answers[:n:n], answers[n:]
		}
		c.reply <- r
	}
}

// safely makes the call and returns its panic as an error.
func (g *Group[K, Q, A]) safely(ctx context.Context, key K, requests []Q) (answers []A, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("coalesce: the call panicked: %v", value)
		}
	}()
	return g.Call(ctx, key, requests)
}
