package chat

import (
	"errors"
	"net/http"

	"github.com/headway-go/headway/internal/api/estimates"
	"github.com/headway-go/headway/internal/api/openai"
	"github.com/headway-go/headway/internal/documents/keys"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks/llm"
)

// spent is what a call really cost, of the budget that it takes from. It is empty where the estimate counts: without a
// budget, without a price, and where the provider does not say what it used. A call that was not made, or that the
// provider rejected, cost nothing.
func (p Prices) spent(
	charges []reservations.Charge, call llm.Call, answer llm.Answer, err error,
) reservations.Tokens {
	if err == nil {
		price, known := p[openai.ModelOf(call.Request)]
		if !known || answer.Usage == nil {
			return nil
		}
		return keys.Spent(charges, price.Of(estimates.Tokens{
			Input: answer.Usage[llm.MeterInput], Output: answer.Usage[llm.MeterOutput],
		}))
	}
	fault, failed := errors.AsType[*llm.Error](err)
	rejected := failed && fault.StatusCode >= http.StatusBadRequest && fault.StatusCode < http.StatusInternalServerError &&
		fault.StatusCode != http.StatusRequestTimeout
	if rejected || errors.Is(err, reservations.ErrNotCalled) {
		return keys.Spent(charges, 0)
	}
	return nil
}
