package estimates

// Generation is how many requests make a generation. Of each model the newest two count: what is older is forgotten.
const Generation = 250

// tokensMost is the largest number of tokens of a request that is believed, as for a charge.
const tokensMost = 1e15

// Kind is one of the ratios that are learned.
type Kind int

// The kinds of ratios.
const (
	// KindInput is that of prompts, used to estimated.
	KindInput Kind = iota
	// KindOutput is that of answers which the request bounds, used to the bound.
	KindOutput
	// KindOpen is that of answers which nothing bounds, used to the estimate.
	KindOpen
	// KindError is reserved to used, of the whole request.
	KindError
	// Kinds is how many there are.
	Kinds
)

// Tokens are those of one request.
type Tokens struct{ Input, Output float64 }

// Total is the sum of both.
func (t Tokens) Total() float64 { return t.Input + t.Output }

// Sample is what one request was estimated to take, and what it used.
type Sample struct {
	// Limit and Model are what is learned about.
	Limit, Model string
	// Estimated is by the request alone, before anything learned.
	Estimated Tokens
	// Open says that nothing bounds the answer.
	Open bool
	// Reserved are the tokens that were charged for the request; zero where that is not known.
	Reserved float64
	// Used is what the provider counted.
	Used Tokens
}

// Counts is what some requests have shown. The zero value is empty.
type Counts struct {
	// N is the number of requests.
	N int64
	// Ratios are those of each Kind.
	Ratios [Kinds]Histogram
	// Reserved and Used are sums, of those of which both are known.
	Reserved, Used float64
}

// Add counts one request. A ratio to nothing is none.
func (c *Counts) Add(s Sample) {
	c.N++
	c.Ratios[KindInput].Add(ratio(s.Used.Input, s.Estimated.Input))
	kind := KindOutput
	if s.Open {
		kind = KindOpen
	}
	c.Ratios[kind].Add(ratio(s.Used.Output, s.Estimated.Output))
	if r := ratio(s.Reserved, s.Used.Total()); r > 0 {
		c.Ratios[KindError].Add(r)
		c.Reserved += s.Reserved
		c.Used += s.Used.Total()
	}
}

// Merge adds what another one has counted, in any order.
func (c *Counts) Merge(o *Counts) {
	c.N += max(0, o.N)
	for k := range c.Ratios {
		c.Ratios[k].Merge(&o.Ratios[k])
	}
	if o.Reserved >= 0 && o.Used >= 0 && o.Reserved+o.Used <= tokensMost*Generation*Known {
		c.Reserved += o.Reserved
		c.Used += o.Used
	}
}

// ratio is zero, which counts for none, where it makes no sense.
func ratio(a, b float64) float64 {
	if !(a > 0 && b > 0 && a <= tokensMost && b <= tokensMost) {
		return 0
	}
	return a / b
}

// State is what is known of one model under one limit: the newest two generations. The zero value knows nothing.
type State struct {
	// Number is that of the current generation, from 0.
	Number            int64
	Current, Previous Counts
}

// Add counts one request, and begins a generation where one is full.
func (s *State) Add(sample Sample) {
	s.Current.Add(sample)
	if s.Full() {
		s.Next()
	}
}

// Full says whether the current generation has ended.
func (s *State) Full() bool { return s.Current.N >= Generation }

// Next begins a generation.
func (s *State) Next() {
	s.Number, s.Previous, s.Current = s.Number+1, s.Current, Counts{}
}

// counts are both generations.
func (s *State) counts() Counts {
	all := s.Current
	all.Merge(&s.Previous)
	return all
}
