package reservations

import (
	"context"
	"errors"
	"math/rand/v2"
)

// Yield gives a start back that was not used, and keeps its place: what was started is there again, what stands behind stays charged,
// so nobody is brought forward, and the task begins again with StateLate, as the first. That is what a task does which one bucket lets start
// and another refuses: it waits for that one, without losing its turn here and without handing it to whoever stands behind.
// Cancel is for a task that does not come back.
//
// While the store is unavailable Yield keeps trying, with growing pauses, until ctx ends. Where an answer was lost it is not repeated: giving
// back twice would let too many start, and what is not given back comes by refill. Errors as for Settle.
func (l *Limiter) Yield(ctx context.Context, c Charge) (Outcome, error) {
	limit, err := l.bucketOf(c)
	if err != nil {
		return Outcome{}, err
	}
	n := c.Tokens.vector(limit)
	if nothing(n) {
		return Outcome{}, nil
	}
	for pause := settleRetryMin; ; pause = min(2*pause, settleRetryMax) {
		o, err := l.ask(ctx, limit, c.Key, Request{Op: OpYield, Tokens: n})
		if err == nil {
			return o, nil
		}
		u, down := errors.AsType[*UnavailableError](err)
		if !down || u.Applied != AppliedNo || !sleep(ctx, pause/2+rand.N(pause)) { //nolint:gosec // jitter needs no secrecy
			return Outcome{}, err
		}
	}
}
