package openai

import (
	"cmp"
	"encoding/json"
	"math"

	"github.com/headway-go/headway/internal/api/estimates"
	"github.com/headway-go/headway/reservations"
)

// Metered returns the tokens by meter. The meters of requests are not among them.
func Metered(t estimates.Tokens) reservations.Tokens {
	return reservations.Tokens{
		MeterTokens: t.Total(), MeterTokensPerDay: t.Total(), MeterInput: t.Input, MeterOutput: t.Output,
	}
}

// Charged returns what a call takes from the meters of one limit: of each meter that counts requests or tokens what was
// estimated, also zero, and one request. Other is the first meter that counts anything else; empty if there is none.
func Charged(e Estimate, meters []string) (charged reservations.Tokens, other string) {
	all := Metered(e.Tokens)
	all[MeterRequests], all[MeterRequestsPerDay], all[reservations.MeterInFlight] = 1, 1, 1
	charged = reservations.Tokens{}
	for _, name := range meters {
		n, ok := all[name]
		if !ok {
			return nil, name
		}
		charged[name] = n // also zero: a charge names each meter
	}
	return charged, ""
}

// usageTimes is how often what was reserved for a call the usage may be that its answer names. A slip of the provider,
// or a service that is not what it should be, must not put a limit into debt for days.
const usageTimes = 20

// Bound lowers the used tokens of each meter to 20 times the reserved or the expected tokens, whichever is more. It
// reports whether anything was lowered.
func Bound(used, reserved, expected reservations.Tokens) (lowered bool) {
	for meter, n := range used {
		if most := usageTimes * max(reserved[meter], expected[meter], 1); n > most {
			used[meter], lowered = most, true
		}
	}
	return lowered
}

// usageMost is the most tokens of one call that are believed at all, as for max_tokens.
const usageMost = math.MaxInt32

// UsageOf reads the usage of an answer. Ok is false where the answer names none that makes sense.
func UsageOf(body []byte) (used estimates.Tokens, ok bool) {
	var answer struct {
		Usage *Usage `json:"usage"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Usage == nil {
		return used, false
	}
	return answer.Usage.Tokens()
}

// Usage is what an answer says it used, in the words of OpenAI and of Anthropic.
type Usage struct {
	Prompt     float64 `json:"prompt_tokens"`
	Completion float64 `json:"completion_tokens"`
	Input      float64 `json:"input_tokens"` // of a response or a message
	Output     float64 `json:"output_tokens"`
	Total      float64 `json:"total_tokens"`
	// CacheWritten are further tokens of a prompt of Anthropic. Tokens that it reads from its cache do not count.
	CacheWritten float64 `json:"cache_creation_input_tokens"`
}

// Tokens returns the tokens. Ok is false where they make no sense, or there are none.
func (u Usage) Tokens() (used estimates.Tokens, ok bool) {
	if u.CacheWritten > 0 {
		u.Input += u.CacheWritten
	}
	used = estimates.Tokens{Input: cmp.Or(u.Prompt, u.Input), Output: cmp.Or(u.Completion, u.Output)}
	if used.Input < 0 || used.Output < 0 || u.Total < 0 || max(used.Total(), u.Total) > usageMost {
		return estimates.Tokens{}, false
	}
	// Some providers count what neither part names, e.g. hidden reasoning, in the total only.
	used.Output += max(0, u.Total-used.Total())
	return used, used.Total() > 0
}
