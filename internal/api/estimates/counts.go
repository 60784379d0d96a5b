package estimates

// Generation is the number of requests of a generation. The newest two generations of each model count; older ones
// are dropped.
const Generation = 250

// tokensMost is the largest number of tokens of a request that counts, as for a charge.
const tokensMost = 1e15

// weightMost bounds the weight of one request, in tokens, so that a few huge requests do not dominate.
const weightMost = 8192

// Kind is a kind of learned ratio.
type Kind int

// The kinds of ratios.
const (
	// KindInput is the ratio of used to estimated tokens of prompts.
	KindInput Kind = iota
	// KindOutput is the ratio of used tokens to the bound, for answers that the request bounds.
	KindOutput
	// KindOpen is the ratio of used to estimated tokens, for answers without a bound.
	KindOpen
	// KindError is the ratio of reserved to used tokens of the whole request.
	KindError
	// Kinds is the number of kinds.
	Kinds
)

// Tokens are the tokens of one request.
type Tokens struct{ Input, Output float64 }

// Total is the sum of both.
func (t Tokens) Total() float64 { return t.Input + t.Output }

// Sample is the estimated, reserved and used tokens of one request.
type Sample struct {
	// Limit and Model choose the ratios that learn from the sample.
	Limit, Model string
	// Estimated is computed from the request alone, without learned ratios.
	Estimated Tokens
	// Open is true if the request does not bound its answer.
	Open bool
	// Reserved are the tokens that were charged for the request, or zero if unknown.
	Reserved float64
	// Used is the count of the provider.
	Used Tokens
}

// Counts are the counts of some requests. The zero value is empty.
type Counts struct {
	// N is the number of requests.
	N int64
	// Ratios are the histograms of each Kind. Except in KindError, a request counts by its estimated tokens. So the
	// sum of reserved tokens is near the sum of used ones, even if small requests have other ratios than large ones.
	Ratios [Kinds]Histogram
	// Seen is the number of requests that each Kind learned from.
	Seen [Kinds]int64
	// Reserved and Used are sums over the requests for which both are known.
	Reserved, Used float64
}

// Add counts one request. A ratio to zero does not count.
func (c *Counts) Add(s Sample) {
	c.N++
	c.see(KindInput, s.Used.Input, s.Estimated.Input, s.Estimated.Input)
	kind := KindOutput
	if s.Open {
		kind = KindOpen
	}
	c.see(kind, s.Used.Output, s.Estimated.Output, s.Estimated.Output)
	if c.see(KindError, s.Reserved, s.Used.Total(), 1) {
		c.Reserved += s.Reserved
		c.Used += s.Used.Total()
	}
}

// see counts the ratio of a to b, weighted by tokens. It returns false if there is no ratio.
func (c *Counts) see(kind Kind, a, b, tokens float64) bool {
	r := ratio(a, b)
	if r <= 0 {
		return false
	}
	c.Seen[kind]++
	c.Ratios[kind].Weigh(r, int64(min(tokens, weightMost)))
	return true
}

// Merge adds the counts of o. The order of merges does not matter.
func (c *Counts) Merge(o *Counts) {
	c.N += o.N
	for k := range c.Ratios {
		c.Ratios[k].Merge(&o.Ratios[k])
		c.Seen[k] += o.Seen[k]
	}
	c.Reserved += o.Reserved
	c.Used += o.Used
}

// ratio returns a/b, or zero if that is no usable ratio. Zero does not count.
func ratio(a, b float64) float64 {
	if !(a > 0 && b > 0 && a <= tokensMost && b <= tokensMost) {
		return 0
	}
	return a / b
}

// State is the newest two generations of one model under one limit. The zero value is empty.
type State struct {
	// Number is the number of the current generation, from 0.
	Number            int64
	Current, Previous Counts
}

// Add counts one request, after it begins a new generation if the current one is full.
func (s *State) Add(sample Sample) {
	s.Current.Add(sample)
	if s.Full() {
		s.Next()
	}
}

// Full returns whether the current generation has ended.
func (s *State) Full() bool { return s.Current.N >= Generation }

// Next begins a generation.
func (s *State) Next() {
	s.Number, s.Previous, s.Current = s.Number+1, s.Current, Counts{}
}

// counts returns the sum of both generations.
func (s *State) counts() Counts {
	all := s.Current
	all.Merge(&s.Previous)
	return all
}
