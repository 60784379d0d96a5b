package keys

import (
	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

// Budget is an amount of money that comes back over time, as the tokens of a limit do.
type Budget = bucket.Budget

// Spend is what a call takes from the budget of the key that may cost so much. Ok is false for a key without a budget.
func (k Key) Spend(cost float64) (charge reservations.Charge, ok bool) {
	if k.Budget == nil {
		return charge, false
	}
	return reservations.Charge{
		Limit: bucket.BudgetLimit, Key: k.Budget.Name(k.ID), Flow: k.Flow,
		Tokens: reservations.Tokens{k.Budget.Meter(): cost},
	}, true
}

// Spent is the part of a call's charges that is money, replaced by its real cost. It is empty where the call takes from
// no budget.
func Spent(charges []reservations.Charge, cost float64) reservations.Tokens {
	spent := reservations.Tokens{}
	for _, c := range charges {
		if c.Limit == bucket.BudgetLimit {
			for unit := range c.Tokens {
				spent[unit] = cost
			}
		}
	}
	return spent
}
