package llm

import (
	"context"
	"errors"
	"log/slog"

	"github.com/headway-go/headway/internal/estimates"
	"github.com/headway-go/headway/internal/openai"
	"github.com/headway-go/headway/reservations"
)

// usageTimes is how often what was reserved for a call the usage may be that its answer names. A slip of the provider,
// or a service that is not what it should be, must not put a limit into debt for days.
const usageTimes = 20

// report calls use with what was used.
func (c *Client) report(
	ctx context.Context, call Call, estimate estimates.Tokens, answer Answer, err error, use func(reservations.Tokens),
) {
	nothing := reservations.Unused(call.Taken...)
	if use == nil || len(nothing) == 0 {
		return
	}
	switch {
	case answer.Usage != nil:
		used := call.charged(answer.Usage)
		if bound(used, call.reserved(), openai.Metered(estimate)) {
			c.config.Logger.WarnContext(ctx,
				"the answer names a usage far above what was reserved: no more than a multiple of that is charged",
				slog.Any("usage", answer.Usage), slog.Int("times", usageTimes), slog.Any("charged", used),
				slog.String("request_id", answer.RequestID))
		}
		use(used)
	case err == nil:
	case errors.Is(err, reservations.ErrNotCalled):
		use(nothing)
	case rejected(err):
		use(call.charged(openai.Metered(estimates.Tokens{})))
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
