package dispatcher

import (
	"context"
	"maps"
	"slices"

	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/reservations"
)

// ChargeOf names a bucket, and takes nothing from it.
func ChargeOf(at reservations.BucketName) reservations.Charge {
	c := reservations.Charge{Limit: at.Limit, Key: at.Key}
	c.Shard = at.Shard
	return c
}

// Servable is why the limits can't serve the charge of a queued task; nil if they can. It needs a limiter. A priority
// that the limit does not have is no fault: see class.Of.
func (s *shared) Servable(c reservations.Charge) error {
	c.Priority = ""
	return s.limiter.Validate(c)
}

// Whole is the charge of a queued task that its producer has checked: a meter that the limit got since then counts
// zero. It needs a limiter. A charge whose limit is not known stays as it is.
func (s *shared) Whole(ctx context.Context, c reservations.Charge) reservations.Charge {
	limit, err := inside.Of(s.limiter).Limits().For(c.Limit, c.Key)
	if err != nil {
		limit, err = inside.Of(s.limiter).LimitFor(ctx, c)
	}
	if err != nil {
		return c
	}
	var whole reservations.Tokens
	for _, m := range limit.Meters {
		if _, named := c.Tokens[m.Name]; named || m.Name == reservations.MeterInFlight {
			continue
		}
		if whole == nil {
			whole = reservations.Tokens{}
			maps.Copy(whole, c.Tokens)
			c.Tokens = whole
		}
		whole[m.Name] = 0
	}
	return c
}

// tokensOf is what the charge takes of each meter, with the call in flight that it need not name. Do not change it.
func tokensOf(l reservations.Limit, c reservations.Charge) reservations.Tokens {
	inFlight := func(m reservations.Meter) bool { return m.Name == reservations.MeterInFlight }
	if _, named := c.Tokens[reservations.MeterInFlight]; named || !slices.ContainsFunc(l.Meters, inFlight) {
		return c.Tokens
	}
	tokens := reservations.Tokens{reservations.MeterInFlight: 1}
	maps.Copy(tokens, c.Tokens)
	return tokens
}
