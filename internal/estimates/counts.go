package estimates

// Generation is how many requests make a generation. Of each model the newest two count: what is older is forgotten.
const Generation = 250

// tokensMost is the largest number of tokens of a request that is believed, as for a charge.
const tokensMost = 1e15

// weightMost bounds by how much one request counts, in tokens: a few huge ones do not speak for all.
const weightMost = 8192

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
	// Ratios are those of each Kind. But for KindError each counts by the tokens that were estimated: where small
	// requests have other ratios than large ones, as many tokens are reserved as are used, all together.
	Ratios [Kinds]Histogram
	// Seen is how many requests each Kind was learned from.
	Seen [Kinds]int64
	// Reserved and Used are sums, of those of which both are known.
	Reserved, Used float64
}

// Add counts one request. A ratio to nothing is none.
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

// see counts the ratio of a to b, as one of so many tokens, and says whether there is one.
func (c *Counts) see(kind Kind, a, b, tokens float64) bool {
	r := ratio(a, b)
	if r <= 0 {
		return false
	}
	c.Seen[kind]++
	c.Ratios[kind].Weigh(r, int64(min(tokens, weightMost)))
	return true
}

// Merge adds what another one has counted, in any order.
func (c *Counts) Merge(o *Counts) {
	c.N += max(0, o.N)
	for k := range c.Ratios {
		c.Ratios[k].Merge(&o.Ratios[k])
		c.Seen[k] += max(0, o.Seen[k])
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
