package llm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"

	"github.com/headway-go/headway/reservations"
)

// Usage is a number of tokens, estimated or as the provider counted them.
type Usage struct {
	// Input are the tokens of the prompt.
	Input float64
	// Output are the tokens of all answers.
	Output float64
}

// Total is the sum of both.
func (u Usage) Total() float64 { return u.Input + u.Output }

// Tokens returns what the meters of this package count, except for the meters of requests.
func (u Usage) Tokens() reservations.Tokens {
	return reservations.Tokens{
		MeterTokens: u.Total(), MeterTokensPerDay: u.Total(), MeterInput: u.Input, MeterOutput: u.Output,
	}
}

// usageMost is the most tokens of one call that are believed at all, as for max_tokens. What is charged has a bound
// below it, see usageTimes.
const usageMost = math.MaxInt32

// usageOf reads the usage of an answer. It is not ok where the answer names none that makes sense.
func usageOf(body []byte) (Usage, bool) {
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
		return Usage{}, false
	}
	u := Usage{Input: cmp.Or(answer.Usage.Prompt, answer.Usage.Input), Output: cmp.Or(answer.Usage.Completion,
		answer.Usage.Output)}
	if u.Input < 0 || u.Output < 0 || answer.Usage.Total < 0 || max(u.Total(), answer.Usage.Total) > usageMost {
		return Usage{}, false
	}
	// Some providers count what neither part names, e.g. hidden reasoning, in the total only.
	if rest := answer.Usage.Total - u.Total(); rest > 0 {
		u.Output += rest
	}
	return u, u.Total() > 0
}

// unknownMeter is the error for a meter that says nothing about requests and tokens.
func unknownMeter(limit, key, name string) error {
	return &reservations.ChargeError{
		Charge: reservations.Charge{Limit: limit, Key: key}, Meter: name, Err: reservations.ErrUnknownMeter,
		Problem: fmt.Sprintf("a call can be charged for %s, %s, %s, %s, %s and %s only",
			MeterRequests, MeterTokens, MeterInput, MeterOutput, MeterRequestsPerDay, MeterTokensPerDay),
	}
}

// usageTimes is how often what was reserved for a call the usage may be that its answer names. A slip of the provider,
// or a service that is not what it should be, must not put a limit into debt for days.
const usageTimes = 20

// report calls use with what was used.
func (c *Client) report(
	ctx context.Context, call Call, answer Answer, err error, use func(reservations.Tokens),
) {
	nothing := reservations.Unused(call.Taken...)
	if use == nil || len(nothing) == 0 {
		return
	}
	switch {
	case err == nil && answer.Usage.Total() > 0:
		used := call.used(answer.Usage)
		if expected, failed := call.Endpoint.Estimate(call.Request); failed == nil &&
			bound(used, call.reserved(), call.used(expected.Usage)) {
			c.config.Logger.WarnContext(ctx,
				"the answer names a usage far above what was reserved: no more than a multiple of that is charged",
				slog.Float64("input_tokens", answer.Usage.Input), slog.Float64("output_tokens", answer.Usage.Output),
				slog.Int("times", usageTimes), slog.Any("charged", used), slog.String("request_id", answer.RequestID))
		}
		use(used)
	case err == nil:
	case errors.Is(err, reservations.ErrNotCalled):
		use(nothing)
	case rejected(err):
		use(call.used(Usage{}))
	}
}

// bound lowers the used tokens of each meter to usageTimes the reserved or the expected tokens, whichever is more. It
// reports whether anything was lowered.
func bound(used, reserved, expected reservations.Tokens) (lowered bool) {
	for meter, n := range used {
		if most := usageTimes * max(reserved[meter], expected[meter], 1); n > most {
			used[meter], lowered = most, true
		}
	}
	return lowered
}
