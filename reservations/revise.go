package reservations

import "context"

// Revise lets a changed limit take effect for those who wait in the bucket of limit and key, and changes nothing else. The outcome
// carries the clock of those who wait (Shift, Speed): hand it to whatever wakes them. Limit may name one shard, as Charge.Bucket does
// ("openai#2"); without, a limit with shards is revised in all of them, and the outcome is that of the first. Errors as for Begin.
func (l *Limiter) Revise(ctx context.Context, limit, key string) (Outcome, error) {
	name, shard := splitShard(limit)
	limits, err := l.Limits().buckets(Charge{Limit: name, Key: key, Shard: shard})
	if err != nil {
		return Outcome{}, err
	}
	if shard != 0 {
		limits = limits[:1]
	}
	outcomes, err := askAll(ctx, limits, func(ctx context.Context, limit Limit) (Outcome, error) {
		return l.ask(ctx, limit, key, Request{Op: OpSettle, Tokens: make([]float64, len(limit.Meters))})
	})
	return outcomes[0], err
}
