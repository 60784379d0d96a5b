package simulate

import "github.com/headway-go/headway/reservations"

// Source makes calls whose charges are known, at the start.
type Source struct{ maker *maker }

// NewSource returns a Source of calls of a pattern. The error names the field and the value.
func NewSource(p Pattern, limits []reservations.Limit, seed uint64) (*Source, error) {
	p.Buckets = nil // the charges name them
	m, err := newMaker(p, limits, seed)
	if err != nil {
		return nil, err
	}
	return &Source{maker: m}, nil
}

// Call is the call of a line. Its latency, and what it uses of its tokens, are drawn from the pattern.
func (s *Source) Call(line int, charges []reservations.Charge) Call {
	estimate := 0.
	for _, c := range charges {
		estimate = max(estimate, c.Tokens[meterTokens], c.Tokens[meterTokensPerDay])
	}
	m := s.maker
	latency := seconds(m.pattern.Latency.value(m.responding))
	return Call{Charges: charges, Used: m.uses(estimate), Latency: latency, Line: line}
}
