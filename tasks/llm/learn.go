package llm

import (
	"github.com/headway-go/headway/estimates"
	"github.com/headway-go/headway/reservations"
)

// modelLength bounds the names of models that are learned about, in bytes.
const modelLength = 200

// Call is the same request as a Call.
func (c Chat) Call() Call {
	return Call{
		Endpoint: EndpointChat, Also: c.Also, Limit: c.Limit, Key: c.Key, CustomID: c.CustomID, Urgent: c.Urgent,
		Flow: c.Flow, Priority: c.Priority, Batch: c.Batch, Charge: c.Charge, Request: c.Request,
	}
}

// Expect is what the call will take from each of its meters, by what was learned about its model: the estimate of its request, scaled. Where
// nothing is known, it is the estimate. Nil for a request that can't be sent.
func (c Call) Expect(l *estimates.Learner) reservations.Tokens {
	a, err := c.Endpoint.assess(c.Request)
	if err != nil {
		return nil
	}
	scaled := l.Ratios(c.Limit, a.model).Scale(estimates.Tokens(a.usage), a.open)
	return c.used(Usage(scaled))
}

// Repriced is the call with charges as Expect has them, for whoever enqueues it.
func (c Call) Repriced(l *estimates.Learner) Call {
	expected := c.Expect(l)
	c.Charge = repriced(c.Charge, expected)
	also := make([]reservations.Charge, len(c.Also))
	for i, charge := range c.Also {
		charge.Tokens = repriced(charge.Tokens, expected)
		also[i] = charge
	}
	if c.Also != nil {
		c.Also = also
	}
	return c
}

// Repriced is Call.Repriced for a chat.
func (c Chat) Repriced(l *estimates.Learner) Chat {
	call := c.Call().Repriced(l)
	c.Charge, c.Also = call.Charge, call.Also
	return c
}

func repriced(charge, expected reservations.Tokens) reservations.Tokens {
	if charge == nil {
		return nil
	}
	now := reservations.Tokens{}
	for name, n := range charge {
		if e, ok := expected[name]; ok {
			n = e
		}
		now[name] = n
	}
	return now
}

// Learn lets l learn from an answer of which the provider has counted the tokens. Charged is what was charged for the call while it ran; nil where that is not known.
func (c Call) Learn(l *estimates.Learner, answer Answer, charged reservations.Tokens) {
	a, err := c.Endpoint.assess(c.Request)
	if err != nil || answer.Usage.Total() <= 0 || len(a.model) > modelLength {
		return
	}
	l.Observe(estimates.Sample{
		Limit: c.Limit, Model: a.model, Estimated: estimates.Tokens(a.usage), Open: a.open, Reserved: Reserved(charged), Used: estimates.Tokens(answer.Usage),
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
