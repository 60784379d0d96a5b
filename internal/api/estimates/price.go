package estimates

// Price is the price of a million tokens of a model, in any currency.
type Price struct {
	Input  float64 `mapstructure:"input"`
	Output float64 `mapstructure:"output"`
}

// million is what prices are for.
const million = 1e6

// Of is the cost of tokens.
func (p Price) Of(t Tokens) float64 { return (t.Input*p.Input + t.Output*p.Output) / million }
