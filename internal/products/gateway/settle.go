package gateway

import (
	"context"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"time"

	"github.com/headway-go/headway/internal/api/estimates"
	"github.com/headway-go/headway/internal/api/openai"
	"github.com/headway-go/headway/internal/documents/keys"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks/llm"
	"github.com/headway-go/headway/worker"
)

// settle replaces the estimate by what the call used, in the background. A block comes first, so that the call waits
// for it.
func (x *exchange) settle(ctx context.Context) {
	g := x.gateway
	if x.block > 0 {
		blocking, cancel := context.WithTimeout(ctx, writePatience)
		if err := x.grant.Block(blocking, x.block); err != nil {
			g.config.Logger.WarnContext(ctx, "a limit could not be blocked", slog.Any("error", err))
		}
		cancel()
	}
	used, unused := x.used()
	x.ended(used, unused)
	g.settling.Go(func() {
		settling, cancel := context.WithTimeout(ctx, settlePatience)
		defer cancel()
		end := func(ctx context.Context) error { return x.grant.Settle(ctx, used) }
		if unused {
			end = x.grant.Cancel
		}
		if err := end(settling); err != nil {
			e := x.event(worker.KindSettled)
			e.Charge, e.Err = x.order.charges[len(x.order.charges)-1], err
			g.emit(e)
			g.config.Logger.WarnContext(ctx, "not all could be settled, the estimate stays charged there",
				slog.Any("error", err))
		}
		x.sync(settling)
	})
}

// used is what the call used of the meters that it is charged for. Nil means the estimate. Unused says that nothing was
// sent.
func (x *exchange) used() (used reservations.Tokens, unused bool) {
	if x.notCalled {
		return nil, true
	}
	tokens, known := x.tokens()
	if !known {
		return nil, false
	}
	estimated := openai.Metered(x.call.estimate.Tokens)
	all := openai.Metered(tokens)
	maps.Copy(all, keys.Spent(x.order.charges, x.order.price.Of(tokens)))
	used, reserved := reservations.Tokens{}, reservations.Tokens{}
	for _, c := range x.order.charges {
		for meter, n := range c.Tokens {
			if all, ok := all[meter]; ok {
				used[meter], reserved[meter] = all, max(reserved[meter], n)
			}
		}
	}
	if openai.Bound(used, reserved, estimated) {
		x.gateway.config.Logger.Warn("the answer names a usage far above what was reserved: no more than a multiple of "+
			"that is charged", slog.Any("usage", all), slog.Any("charged", used))
	}
	return used, false
}

// tokens are the tokens that the call took. Known is false where the estimate counts.
func (x *exchange) tokens() (t estimates.Tokens, known bool) {
	switch m := x.meter; {
	case x.rejected:
		return t, true
	case m == nil:
		return t, false
	case m.known && !m.streamed, m.known && m.complete:
		return m.used, true
	case m.streamed:
		// Of a stream that broke off, or that names no usage, counts what came. It never counts less than was said so far.
		t.Input = max(m.used.Input, x.call.estimate.Input)
		if m.known && m.used.Input > 0 {
			t.Input = m.used.Input
		}
		t.Output = max(m.used.Output, m.counted())
		return t, true
	}
	return t, false
}

// counted is how many tokens of an answer have come: one a chunk at least, and one for each 4 bytes.
func (m *meter) counted() float64 {
	const bytesPerToken = 4
	return math.Max(float64(m.chunks), math.Ceil(float64(m.text)/bytesPerToken))
}

// sync lowers the bucket of the provider's limit to what its headers say is left.
func (x *exchange) sync(ctx context.Context) {
	p := x.order.provider
	if len(x.header) == 0 || p.Sync == llm.SyncOff || len(x.order.charges) == 0 {
		return
	}
	charge := x.order.charges[len(x.order.charges)-1]
	left := reservations.Tokens{}
	said, _ := llm.ReadLimits(&http.Response{StatusCode: http.StatusOK, Header: x.header})
	for meter, n := range said {
		if _, charged := charge.Tokens[meter]; charged {
			left[meter] = n
		}
	}
	if len(left) == 0 {
		return
	}
	o, err := x.gateway.config.Limiter.Sync(ctx, charge, reservations.Observation{
		Remaining: left, Age: time.Since(x.sent), Up: p.Sync == llm.SyncBoth,
	})
	if w := x.gateway.config.Waitlist; err == nil && w != nil {
		w.Changed(o)
	}
}
