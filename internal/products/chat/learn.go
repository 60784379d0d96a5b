package chat

import (
	"cmp"

	"github.com/headway-go/headway/internal/api/estimates"
	"github.com/headway-go/headway/internal/api/openai"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks/llm"
)

// modelLength bounds the names of models that are learned about, in bytes.
const modelLength = 200

// Learning is what a worker does with what it learns of its estimates. Nil learns nothing.
type Learning struct {
	Learner *estimates.Learner
	// Limits names the limits whose tasks are charged by what was learned.
	Limits []string
}

// expect is what a call will take, by what was learned about its model in a limit: the estimate of its request, scaled.
// Where nothing is known, it is the estimate.
func (l *Learning) expect(e openai.Estimate, limit string) reservations.Tokens {
	return openai.Metered(l.Learner.Ratios(limit, e.Model).Scale(e.Tokens, e.Open))
}

// learn learns from an answer of which the provider has counted the tokens. Charge is what was charged for the call
// while it ran.
func (l *Learning) learn(e openai.Estimate, answer llm.Answer, charge reservations.Charge) {
	if answer.Usage == nil || len(e.Model) > modelLength || charge.Limit == "" {
		return
	}
	l.Learner.Observe(estimates.Sample{
		Limit: charge.Limit, Model: e.Model, Estimated: e.Tokens, Open: e.Open, Reserved: reserved(charge),
		Used: estimates.Tokens{Input: answer.Usage[llm.MeterInput], Output: answer.Usage[llm.MeterOutput]},
	})
}

// assess estimates a call. The error is that of a call that can't be sent.
func assess(call llm.Call) (openai.Estimate, error) {
	return openai.Assess(cmp.Or(string(call.Endpoint), openai.Chat), call.Request)
}

// reserved are the tokens of a charge, whichever meters count them.
func reserved(charge reservations.Charge) float64 {
	for _, meter := range []string{llm.MeterTokens, llm.MeterTokensPerDay} {
		if n, ok := charge.Tokens[meter]; ok {
			return n
		}
	}
	return charge.Tokens[llm.MeterInput] + charge.Tokens[llm.MeterOutput]
}
