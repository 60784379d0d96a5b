package llm

import (
	"maps"
	"slices"

	"github.com/headway-go/headway/estimates"
	"github.com/headway-go/headway/reservations"
)

// modelLength bounds the names of models that are learned about, in bytes.
const modelLength = 200

// Expect is what the call will take from each of its meters, by what was learned about its model: the estimate of its
// request, scaled. Where nothing is known, it is the estimate. Nil for a request that can't be sent.
func (c Call) Expect(l *estimates.Learner) reservations.Tokens {
	a, err := c.Endpoint.assess(c.Request)
	if err != nil {
		return nil
	}
	scaled := l.Ratios(c.provider().Limit, a.model).Scale(estimates.Tokens(a.usage), a.open)
	return c.used(Usage(scaled))
}

// Repriced is the call with charges as Expect has them, to be enqueued.
func (c Call) Repriced(l *estimates.Learner) Call {
	expected := c.Expect(l)
	c.Taken = slices.Clone(c.Taken)
	for i, charge := range c.Taken {
		c.Taken[i].Tokens = maps.Clone(charge.Tokens)
		for name := range charge.Tokens {
			if n, ok := expected[name]; ok {
				c.Taken[i].Tokens[name] = n
			}
		}
	}
	return c
}

// Learn lets l learn from an answer of which the provider has counted the tokens. Charged is what was charged for the
// call while it ran; nil where that is not known.
func (c Call) Learn(l *estimates.Learner, answer Answer, charged reservations.Tokens) {
	a, err := c.Endpoint.assess(c.Request)
	if err != nil || answer.Usage.Total() <= 0 || len(a.model) > modelLength {
		return
	}
	l.Observe(estimates.Sample{
		Limit: c.provider().Limit, Model: a.model, Estimated: estimates.Tokens(a.usage), Open: a.open, Reserved: Reserved(charged),
		Used: estimates.Tokens(answer.Usage),
	})
}

// Reserved are the tokens of a charge, whichever meters count them.
func Reserved(charge reservations.Tokens) float64 {
	for _, meter := range []string{MeterTokens, MeterTokensPerDay} {
		if n, ok := charge[meter]; ok {
			return n
		}
	}
	return charge[MeterInput] + charge[MeterOutput]
}
