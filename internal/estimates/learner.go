package estimates

import (
	"cmp"
	"slices"
	"sync"
)

// Known is how many pairs of limit and model a Learner keeps. It learns nothing of further pairs.
const Known = 1000

// Key is what is learned about.
type Key struct{ Limit, Model string }

// Learner learns from the requests of one process, and from what others have learned. Safe for concurrent use.
type Learner struct {
	config Config

	mu      sync.Mutex // guards what is below
	states  map[Key]*State
	pending map[Key]*Counts // of this process, not taken yet
	shared  map[Key]int64   // the generation that the fleet is in; what one process has counts on ahead of it
}

// Learned is what is known of a model under a limit.
type Learned struct {
	Key
	Ratios
	// N is how many requests it is learned from.
	N int64
	// Error are quantiles of reserved to used tokens, one request at a time: 1 is right, above it too much was
	// reserved. All are 1 where nothing is known.
	ErrorP10, ErrorP50, ErrorP90 float64
	// Reserved and Used are the sums of those requests.
	Reserved, Used float64
}

// New returns a Learner that knows nothing. The error joins every fault of config.
func New(config Config) (*Learner, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	return &Learner{
		config: config.withDefaults(), states: map[Key]*State{}, pending: map[Key]*Counts{},
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

// Ratios are what is known of a model under a limit; those of nothing known leave an estimate as it is.
func (l *Learner) Ratios(limit, model string) Ratios {
	l.mu.Lock()
	defer l.mu.Unlock()
	state, ok := l.states[Key{Limit: limit, Model: model}]
	if !ok {
		return Ratios{}
	}
	counts := state.counts()
	return ratiosOf(&counts, l.config)
}

// Take returns what was observed since the last Take. Give back what could not be shared.
func (l *Learner) Take() map[Key]*Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.pending
	l.pending = map[Key]*Counts{}
	return taken
}

// GiveBack adds to what the next Take returns.
func (l *Learner) GiveBack(key Key, c *Counts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending[key] == nil {
		l.pending[key] = &Counts{}
	}
	l.pending[key].Merge(c)
}

// Set replaces what is known by what the whole fleet knows, which includes all that was taken. What was observed since
// counts on top of it.
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

// Learned is all that is known, sorted by limit and model.
func (l *Learner) Learned() []Learned {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Learned, 0, len(l.states))
	for key, state := range l.states {
		c := state.counts()
		one := Learned{Key: key, Ratios: ratiosOf(&c, l.config), N: c.N, Reserved: c.Reserved, Used: c.Used}
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

// Generation is the number of the newest generation that is known of a key, as the last Set said; 0 before.
func (l *Learner) Generation(key Key) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shared[key]
}
