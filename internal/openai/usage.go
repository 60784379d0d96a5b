package openai

import (
	"cmp"
	"encoding/json"
	"math"

	"github.com/headway-go/headway/internal/estimates"
	"github.com/headway-go/headway/reservations"
)

// Metered returns the tokens by meter. The meters of requests are not among them.
func Metered(t estimates.Tokens) reservations.Tokens {
	return reservations.Tokens{
		MeterTokens: t.Total(), MeterTokensPerDay: t.Total(), MeterInput: t.Input, MeterOutput: t.Output,
	}
}

// usageMost is the most tokens of one call that are believed at all, as for max_tokens.
const usageMost = math.MaxInt32

// UsageOf reads the usage of an answer. Ok is false where the answer names none that makes sense.
func UsageOf(body []byte) (used estimates.Tokens, ok bool) {
	var answer struct {
		Usage *struct {
			Prompt     float64 `json:"prompt_tokens"`
			Completion float64 `json:"completion_tokens"`
			Input      float64 `json:"input_tokens"` // of a response
			Output     float64 `json:"output_tokens"`
			Total      float64 `json:"total_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Usage == nil {
		return used, false
	}
	u := answer.Usage
	used = estimates.Tokens{Input: cmp.Or(u.Prompt, u.Input), Output: cmp.Or(u.Completion, u.Output)}
	if used.Input < 0 || used.Output < 0 || u.Total < 0 || max(used.Total(), u.Total) > usageMost {
		return estimates.Tokens{}, false
	}
	// Some providers count what neither part names, e.g. hidden reasoning, in the total only.
	used.Output += max(0, u.Total-used.Total())
	return used, used.Total() > 0
}
