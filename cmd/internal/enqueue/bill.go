package enqueue

import (
	"math"
	"strings"

	"github.com/headway-go/headway/internal/api/openai"
	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/config"
)

// bill is what requests may cost at most: each once, with an answer as long as it may be. HTTP requests of their own
// cost nothing here.
type bill struct {
	figures

	prices map[string]config.Price
}

func newBill(prices map[string]config.Price) *bill {
	return &bill{figures{Progress: batches.Progress{Models: map[string]batches.Usage{}}}, prices}
}

// add counts a good request.
func (b *bill) add(r request) {
	if len(b.prices) == 0 || r.line.HTTP() {
		return
	}
	asked, err := openai.Assess(r.line.URL, r.line.Body)
	if err != nil { // its charge was made of the same body
		return
	}
	u := b.Models[asked.Model]
	u.Prompt += asked.Input
	u.Completion += asked.Output
	b.Models[asked.Model] = u
}

// total adds the cost, where there are prices.
func (b *bill) total() { b.price(b.prices) }

// checkBudget refuses a budget that can't be. The error is a *cli.UsageError.
func (j *batchJob) checkBudget() error {
	if !(j.budget >= 0) || math.IsInf(j.budget, 1) {
		return cli.Usage("--budget %v must be an amount of money above zero", j.budget)
	}
	return nil
}

// within refuses what may cost more than a budget; zero is none. The error is a *cli.UsageError.
func (j *batchJob) within() error {
	switch {
	case j.budget == 0:
		return nil
	case len(j.bill.prices) == 0:
		return cli.Usage("--budget %v: %s has no prices, so what the requests cost is not known", j.budget, j.file)
	}
	if len(j.bill.Unpriced) > 0 {
		return cli.Usage("--budget %v: %s has no price for model %s; nothing was enqueued", j.budget, j.file,
			strings.Join(j.bill.Unpriced, ", "))
	}
	if cost := *j.bill.Cost; cost > j.budget {
		return cli.Usage("--budget %v: the requests may cost %s, if each uses all that it may; nothing was enqueued: "+
			"raise the budget, lower max_tokens, or send a part of the file", j.budget, costText(cost))
	}
	return nil
}
