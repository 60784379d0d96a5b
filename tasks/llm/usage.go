package llm

import (
	"context"
	"errors"
	"log/slog"

	"github.com/headway-go/headway/internal/api/estimates"
	"github.com/headway-go/headway/internal/api/openai"
	"github.com/headway-go/headway/reservations"
)

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
		if openai.Bound(used, call.reserved(), openai.Metered(estimate)) {
			c.config.Logger.WarnContext(ctx,
				"the answer names a usage far above what was reserved: no more than a multiple of that is charged",
				slog.Any("usage", answer.Usage), slog.Any("charged", used),
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
