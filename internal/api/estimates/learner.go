package estimates

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
)

// Known is the largest number of pairs of limit and model in a Learner. It ignores further pairs.
const Known = 1000

// Key is a pair of limit and model.
type Key struct{ Limit, Model string }

// Learner learns from the requests of one process, and from the counts of other processes. It is safe for concurrent
// use.
type Learner struct {
	quantile float64

	mu      sync.Mutex // guards the fields below
	states  map[Key]*State
	pending map[Key]*Counts // of this process, before Take
	shared  map[Key]int64   // the generation of the fleet; this process may be ahead of it
}

// Learned is the accuracy of the estimates of a model under a limit.
type Learned struct {
	Key
	Ratios
	// N is the number of requests.
	N int64
	// Error are quantiles of the ratio of reserved to used tokens of single requests. 1 is exact; above 1, too much
	// was reserved. All are 1 without any request.
	ErrorP10, ErrorP50, ErrorP90 float64
	// Reserved and Used are sums over these requests.
	Reserved, Used float64
}

// New returns an empty Learner. The error is the fault of config.
func New(config Config) (*Learner, error) {
	if q := config.Quantile; !(q >= 0 && q <= 1) {
		return nil, fmt.Errorf("quantile: %v must be above 0 and at most 1", q)
	}
	return &Learner{
		quantile: cmp.Or(config.Quantile, QuantileDefault), states: map[Key]*State{}, pending: map[Key]*Counts{},
		shared: map[Key]int64{},
	}, nil
}

// Observe learns from one request.
func (l *Learner) Observe(s Sample) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := Key{Limit: s.Limit, Model: s.Model}
	state, ok := l.states[key]
	if !ok {
		if len(l.states) >= Known {
			return
		}
		state = &State{}
		l.states[key] = state
	}
	state.Add(s)
	if l.pending[key] == nil {
		l.pending[key] = &Counts{}
	}
	l.pending[key].Add(s)
}

// Ratios returns the learned ratios of a model under a limit. Without any, they leave an estimate unchanged.
func (l *Learner) Ratios(limit, model string) Ratios {
	l.mu.Lock()
	defer l.mu.Unlock()
	state, ok := l.states[Key{Limit: limit, Model: model}]
	if !ok {
		return Ratios{}
	}
	counts := state.counts()
	return ratiosOf(&counts, l.quantile)
}

// Take returns the counts since the last Take. Call GiveBack with counts that could not be shared.
func (l *Learner) Take() map[Key]*Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.pending
	l.pending = map[Key]*Counts{}
	return taken
}

// GiveBack adds counts to the result of the next Take.
func (l *Learner) GiveBack(key Key, c *Counts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending[key] == nil {
		l.pending[key] = &Counts{}
	}
	l.pending[key].Merge(c)
}

// Set replaces the state by the state of the whole fleet, which includes all counts of Take. Later samples of this
// process count on top of it.
func (l *Learner) Set(key Key, s State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.states[key] == nil && len(l.states) >= Known {
		return
	}
	l.shared[key] = s.Number
	if more := l.pending[key]; more != nil {
		s.Current.Merge(more)
	}
	l.states[key] = &s
}

// Learned returns all learned estimates, sorted by limit and model.
func (l *Learner) Learned() []Learned {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Learned, 0, len(l.states))
	for key, state := range l.states {
		c := state.counts()
		one := Learned{Key: key, Ratios: ratiosOf(&c, l.quantile), N: c.N, Reserved: c.Reserved, Used: c.Used}
		one.ErrorP10, _ = c.Ratios[KindError].Quantile(0.1)
		one.ErrorP50, _ = c.Ratios[KindError].Quantile(0.5)
		one.ErrorP90, _ = c.Ratios[KindError].Quantile(0.9)
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b Learned) int {
		return cmp.Or(cmp.Compare(a.Limit, b.Limit),
			cmp.Compare(a.Model, b.Model))
	})
	return all
}

// Generation returns the newest generation of a key, by the last Set, or 0 before it.
func (l *Learner) Generation(key Key) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shared[key]
}
