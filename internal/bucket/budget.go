package bucket

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// BudgetLimit is the limit that counts the money of the gateway's keys. Each key has a bucket of its own. Every Limiter
// knows it.
const BudgetLimit = "headway-budget"

// Budget is an amount of money that comes back over time, as the tokens of a limit do.
type Budget struct {
	Amount float64       `json:"amount" bson:"amount"`
	Period time.Duration `json:"period" bson:"period"`
	Unit   string        `json:"unit" bson:"unit"`
}

// Meter is the name of the meter that counts the money.
func (b Budget) Meter() string { return strings.ToLower(b.Unit) }

// Name is the key of the bucket of a key with an ID. It says all of the budget, so that any process knows its limit.
func (b Budget) Name(id string) string {
	return fmt.Sprintf("%s:%s/%s:%s", id, strconv.FormatFloat(b.Amount, 'g', -1, 64), b.Period, b.Meter())
}

// BudgetOf reads Name. Ok is false for the key of any other bucket.
func BudgetOf(key string) (b Budget, ok bool) {
	parts := strings.Split(key, ":")
	if len(parts) != 3 {
		return b, false
	}
	amount, period, _ := strings.Cut(parts[1], "/")
	var faulty, late error
	b.Amount, faulty = strconv.ParseFloat(amount, 64)
	b.Period, late = time.ParseDuration(period)
	b.Unit = parts[2]
	return b, faulty == nil && late == nil
}
