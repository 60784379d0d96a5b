package llm

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/headway-go/headway/reservations"
)

// usageTimes is how often what was reserved for a call the usage may be that its answer names. A slip of the provider, or a
// service that is not what it should be, must not put a limit into debt for days.
const usageTimes = 20

// report calls use with what was used.
func (c *Client) report(
	ctx context.Context, by charged, to Endpoint, request json.RawMessage, answer Answer, err error, use func(reservations.Tokens),
) {
	if use == nil || len(by.nothing()) == 0 {
		return
	}
	switch {
	case err == nil && answer.Usage.Total() > 0:
		used := by.used(answer.Usage)
		if expected, failed := to.Estimate(request); failed == nil && bound(used, by.reserved(), by.used(expected)) {
			c.config.Logger.WarnContext(ctx, "the answer names a usage far above what was reserved: no more than a multiple of that is charged",
				slog.Float64("input_tokens", answer.Usage.Input), slog.Float64("output_tokens", answer.Usage.Output),
				slog.Int("times", usageTimes), slog.Any("charged", used), slog.String("request_id", answer.RequestID))
		}
		use(used)
	case err == nil:
	case unsent(err):
		use(by.nothing())
	case rejected(err):
		use(by.used(Usage{}))
	}
}

// bound lowers what was used of each meter to usageTimes of what was reserved of it, or of what the request lets expect where that is
// more, and says whether anything was lowered.
func bound(used, reserved, expected reservations.Tokens) (lowered bool) {
	for meter, n := range used {
		if most := usageTimes * max(reserved[meter], expected[meter], 1); n > most {
			used[meter], lowered = most, true
		}
	}
	return lowered
}
