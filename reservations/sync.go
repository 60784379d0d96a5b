package reservations

import (
	"context"
	"time"
)

// Observation is what a provider says is left of its own limit.
type Observation struct {
	// Remaining is what was left of each meter when the provider looked. Meters that are not named were not seen.
	Remaining Tokens
	// Age is the time since the request was sent that brought the answer. What has come back meanwhile is added to Remaining, which makes it the
	// most that can be left.
	Age time.Duration
	// Up lets balances be corrected upwards too. Without it they only go down.
	Up bool
}

// Sync corrects the balances of the charge's bucket by what a provider says is left. It is not atomic yet, and only corrects downwards.
func (l *Limiter) Sync(ctx context.Context, c Charge, seen Observation) (Outcome, error) {
	limit, err := l.Limit(c.Limit)
	if err != nil {
		return Outcome{}, err
	}
	b, _, err := l.store.Bucket(ctx, c.Limit, c.Key)
	if err != nil {
		return Outcome{}, err
	}
	limit = limit.forKey(c.Key)
	b = b.accrue(limit, time.Now())
	x := make([]float64, len(limit.Meters))
	for k, m := range limit.Meters {
		if n, ok := seen.Remaining[m.Name]; ok {
			x[k] = min(0, min(m.Cap(), n+m.passed(b.At.Add(-seen.Age), b.At))-b.Meters[k].Ledgers[LedgerUse])
		}
	}
	if nothing(x) {
		return Outcome{}, nil
	}
	return l.ask(ctx, limit, c.Key, Request{Op: OpSettle, Tokens: x})
}
