package chat

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/api/estimates"
	"github.com/headway-go/headway/internal/api/httpcall"
	"github.com/headway-go/headway/internal/documents/keys"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks/llm"
)

// A call costs what it used. The estimate counts where that is not known.
func TestSpent(t *testing.T) {
	t.Parallel()
	charge, _ := keys.Key{Budget: &keys.Budget{Amount: 9, Period: time.Hour, Unit: "usd"}}.Spend(5)
	budget := []reservations.Charge{charge, {Limit: "openai", Tokens: reservations.Tokens{"requests": 1}}}
	const estimated = -1
	answered := func(status int) error { return &llm.Error{StatusCode: status} }
	used := llm.Answer{Usage: reservations.Tokens{llm.MeterInput: 100, llm.MeterOutput: 10}}
	for name, c := range map[string]struct {
		charges []reservations.Charge
		model   string
		answer  llm.Answer
		err     error
		want    float64
	}{
		"an answer":        {charges: budget, model: "m", answer: used, want: 0.0004},
		"no price":         {charges: budget, model: "x", answer: used, want: estimated},
		"no usage":         {charges: budget, model: "m", want: estimated},
		"no budget":        {charges: budget[1:], model: "m", answer: used, want: estimated},
		"rejected":         {charges: budget, model: "m", err: answered(http.StatusBadRequest)},
		"refused":          {charges: budget, model: "m", err: answered(http.StatusTooManyRequests)},
		"failed":           {charges: budget, model: "m", err: answered(http.StatusBadGateway), want: estimated},
		"gave up":          {charges: budget, model: "m", err: answered(http.StatusRequestTimeout), want: estimated},
		"was not made":     {charges: budget, model: "m", err: httpcall.NotCalled(errors.New("away"))},
		"broke off midway": {charges: budget, model: "m", err: errors.New("reset"), want: estimated},
	} {
		prices := Prices{"m": estimates.Price{Input: 1, Output: 30}}
		call := llm.Call{Request: json.RawMessage(`{"model":"` + c.model + `"}`)}
		got, known := prices.spent(c.charges, call, c.answer, c.err)["usd"]
		if !known {
			got = estimated
		}
		if diff := got - c.want; diff > 1e-9 || diff < -1e-9 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
