package engine

import (
	"maps"
	"slices"

	"github.com/headway-go/headway/reservations"
)

// Servable is why the limits can't serve the charge of a queued task; nil if they can. It needs a limiter. A priority
// that the limit does not have is no fault: see class.Of.
func (s *Engine) Servable(c reservations.Charge) error {
	c.Priority = ""
	return s.limiter.Validate(c)
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
