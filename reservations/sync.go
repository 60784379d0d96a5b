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

// Sync corrects the balances of the charge's bucket by what a provider says is left.
func (l *Limiter) Sync(_ context.Context, c Charge, _ Observation) (Outcome, error) {
	_, err := l.Limit(c.Limit)
	return Outcome{}, err
}
