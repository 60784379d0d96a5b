package gateway

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/headway-go/headway/internal/api/estimates"
	"github.com/headway-go/headway/internal/api/openai"
	"github.com/headway-go/headway/internal/documents/keys"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/reservations"
)

// order is where a call goes, and what it takes.
type order struct {
	provider Provider
	charges  []reservations.Charge // the provider's is the last
	price    estimates.Price       // with a budget
}

// codeBudget is the code of errors about money, OpenAI's own.
const codeBudget = "insufficient_quota"

// orderOf says where the call of a key goes, and what it takes from which bucket: from the buckets of the key, then
// from the provider's.
func (g *Gateway) orderOf(c *call, key keys.Key) (o order, problem *fault) {
	if !key.May(c.model) {
		return o, &fault{
			status: http.StatusForbidden, code: "model_not_allowed", param: "model",
			message: fmt.Sprintf("This key may not use the model %.80q.", c.model),
		}
	}
	buckets, last := key.Charges(), reservations.Charge{}
	for _, p := range g.config.Providers {
		if slices.Contains(p.Models, c.model) {
			last = reservations.Charge{Limit: p.Limits[0]}
		}
	}
	if n := len(buckets) - 1; n >= 0 && g.provides(buckets[n].Limit) &&
		(last.Limit == "" || last.Limit == buckets[n].Limit) { // the key names a bucket of the provider's limit
		last, buckets = buckets[n], buckets[:n]
	}
	if last.Limit == "" {
		last = g.fallback
	}
	at := g.providerOf(last.Limit)
	if at < 0 {
		return o, &fault{status: http.StatusBadRequest, code: "model_not_found", param: "model", message: fmt.Sprintf(
			"This gateway has no limit for the model %.80q: list the model in providers.*.models of headway.yaml, or "+
				"start the gateway with --limit.", c.model)}
	}
	o.provider = g.config.Providers[at]
	for _, b := range append(buckets, last) {
		b.Flow, b.Priority = key.Flow, key.Priority
		if b.Flow == "" {
			b.Flow = key.Tenant
		}
		if problem = g.charge(&b, c); problem != nil {
			return o, problem
		}
		o.charges = append(o.charges, b)
	}
	return o, g.spend(&o, c, key)
}

// providerOf is the index of the provider that gets the calls of a limit; negative if there is none.
func (g *Gateway) providerOf(limit string) int {
	return slices.IndexFunc(g.config.Providers, func(p Provider) bool {
		return limit != "" && (slices.Contains(p.Limits, limit) || len(p.Limits) == 0 && len(g.config.Providers) == 1)
	})
}

// provides says whether a limit of a key is that of a provider, and none before it. A provider that serves all limits
// has the limit of the gateway (Config.Limit): a key without that one would pass it by.
func (g *Gateway) provides(limit string) bool {
	i := g.providerOf(limit)
	return i >= 0 && (len(g.config.Providers[i].Limits) > 0 || g.fallback.Limit == limit)
}

// charge sets what the call takes from the bucket of a charge.
func (g *Gateway) charge(b *reservations.Charge, c *call) *fault {
	limit, err := inside.Of(g.config.Limiter).Limits().For(b.Limit, b.Key)
	if err != nil {
		return broken(err)
	}
	meters := make([]string, len(limit.Meters))
	for i, m := range limit.Meters {
		meters[i] = m.Name
	}
	tokens, other := openai.Charged(c.estimate, meters)
	if other != "" {
		return broken(fmt.Errorf("meter %q of limit %s counts neither requests nor tokens: calls are not charged for it",
			other, b.Limit))
	}
	b.Tokens = tokens
	if len(limit.Priorities) == 0 {
		b.Priority = ""
	}
	if err = g.config.Limiter.Validate(*b); err != nil {
		return &fault{
			status: http.StatusBadRequest, code: "request_too_large", noRetry: true,
			message: fmt.Sprintf("No waiting can make room for this call: %v", err),
		}
	}
	for _, m := range limit.Meters {
		if n := tokens[m.Name]; !g.config.Large && m.Cap() > 0 && n > m.Cap() {
			return &fault{status: http.StatusBadRequest, code: "request_too_large", noRetry: true, message: fmt.Sprintf(
				"This call reserves %.0f %s, which is above the %.0f that limit %s lets start at once: lower max_tokens, or "+
					"start the gateway with --allow-large.", n, m.Name, m.Cap(), b.Limit)}
		}
	}
	return nil
}

// broken is a fault of the settings, which no caller can mend.
func broken(err error) *fault {
	return &fault{
		status: http.StatusInternalServerError, code: "gateway_settings", noRetry: true,
		message: "The settings of this gateway do not fit: " + err.Error(),
	}
}

// spend adds what the call may cost to the charges of a key with a budget, before that of the provider.
func (g *Gateway) spend(o *order, c *call, key keys.Key) *fault {
	if key.Budget == nil {
		return nil
	}
	price, ok := g.config.Prices[c.model]
	if !ok {
		return &fault{status: http.StatusForbidden, code: "model_without_price", param: "model", message: fmt.Sprintf(
			"This key has a budget, and the model %.80q has no price in headway.yaml (prices).", c.model)}
	}
	o.price = price
	cost := price.Of(c.estimate.Tokens)
	if cost > key.Budget.Amount {
		return &fault{status: http.StatusBadRequest, code: "request_too_large", noRetry: true, message: fmt.Sprintf(
			"This call may cost %.6g %s, more than the whole budget of its key: lower max_tokens.", cost, key.Budget.Unit)}
	}
	charge, _ := key.Spend(cost)
	o.charges = slices.Insert(o.charges, len(o.charges)-1, charge)
	return nil
}
