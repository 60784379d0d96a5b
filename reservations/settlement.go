package reservations

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	settleRetryMin = 100 * time.Millisecond
	settleRetryMax = 5 * time.Second
)

// Settle replaces the estimated charge of a task that started by what it really used, as the limit's SettleMode allows. Meters
// that used does not name were exact. The outcome carries the shift that the settlement moved; it is zero when nothing had to be corrected.
//
// While the store is unavailable Settle keeps trying, with growing pauses, until ctx ends. Where an answer was lost and the
// correction may have been applied, it only repeats what takes: giving back twice would let too many start, taking twice
// only lets them start later. Call it once for each start.
func (l *Limiter) Settle(ctx context.Context, c Charge, used Tokens) (Outcome, error) {
	limit, err := l.Limit(c.Limit)
	if err != nil {
		return Outcome{}, err
	}
	if err := (Charge{Limit: c.Limit, Key: c.Key, Tokens: used}).validateUse(limit); err != nil {
		return Outcome{}, err
	}
	back := make([]float64, len(limit.Meters))
	for k, m := range limit.Meters {
		if n, ok := used[m.Name]; ok {
			back[k] = c.Tokens[m.Name] - n
		}
	}
	if limit.Settle == SettleKeep {
		onlyTake(back)
	}
	for pause := settleRetryMin; ; pause = min(2*pause, settleRetryMax) {
		if nothing(back) {
			return Outcome{}, nil
		}
		outcome, err := l.ask(ctx, limit, c.Key, Request{Op: OpSettle, Tokens: back})
		if err == nil || !errors.Is(err, ErrUnavailable) || ctx.Err() != nil {
			return outcome, err
		}
		if u := (*UnavailableError)(nil); !errors.As(err, &u) || u.Applied != AppliedNo {
			onlyTake(back)
		}
		if !sleep(ctx, pause/2+rand.N(pause)) { //nolint:gosec // jitter needs no secrecy
			return outcome, err
		}
	}
}

// validateUse is Validate without a largest charge: what was used was used.
func (c Charge) validateUse(l Limit) error {
	l.Meters = slices.Clone(l.Meters)
	for k := range l.Meters {
		l.Meters[k].MaxReserved = Unlimited
	}
	return c.Validate(l)
}

func onlyTake(back []float64) {
	for k := range back {
		back[k] = min(0, back[k])
	}
}

func nothing(back []float64) bool {
	for _, x := range back {
		if x != 0 {
			return false
		}
	}
	return true
}

// sleep waits for d and says whether ctx let it.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
