package reservations

import "context"

// Restart begins anew a start of c that came too late to be used: the caller was held up (a machine that stood still, a slow answer) and would now meet those who
// were let start after it. What it took is lost, since whoever counts has lost it as well: a bucket that is full does not fill. So the charge is taken once more, as
// that of a task whose time has come: the answer is that of Begin. The plan learns of it: as soon as those who wait would come much too early, they are set back. All is
// one round trip.
//
// It assumes that Begin let c start, with c.Shard set from that answer, and nothing was settled or given back since. After an error the task begins again with
// StateLate. Errors as for Begin.
func (l *Limiter) Restart(ctx context.Context, c Charge) (Outcome, error) {
	limit, c, _, err := l.resolve(c, Place{State: StateLate, Shard: c.Shard})
	if err != nil {
		return Outcome{}, err
	}
	n, state := c.Tokens.vector(limit), StateReserved
	if c.Urgent && limit.HasHeadroom() {
		state = StateLate
	}
	outcomes, err := l.askMany(ctx, limit, c.Key, Request{Op: OpLose, Tokens: n}, Request{Op: OpBegin, State: state, Tokens: n, Urgent: c.Urgent})
	if err != nil {
		return Outcome{}, err
	}
	return outcomes[len(outcomes)-1], nil
}
