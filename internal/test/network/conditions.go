package network

import (
	"math/rand/v2"
	"sync"
	"time"
)

// State is what happens to messages.
type State int

const (
	// Up delivers what is written.
	Up State = iota
	// Refuse resets all connections, and refuses new ones.
	Refuse
	// Hang delivers nothing. A dial of a [Wire] fails at once, as if its timeout had passed: go-redis's PubSub dials while
	// it holds a mutex. When the state ends, all connections that hung are reset.
	Hang
)

// Conditions are what happens to the messages of one process. The methods are safe for concurrent use.
type Conditions struct {
	mu     sync.Mutex // guards what is below
	random *rand.Rand
	state  State
	least  time.Duration // of the delay of a message
	most   time.Duration
	more   time.Duration // added to each delay
	lose   float64       // the share of the answers that are lost
}

// NewConditions returns conditions that are up, where each message takes a random time from least to most. Seed and
// stream are of the random numbers.
func NewConditions(seed, stream uint64, least, most time.Duration) *Conditions {
	return &Conditions{
		random: rand.New(rand.NewPCG(seed, stream)), least: least, most: most, //nolint:gosec // tests repeat it
	}
}

// Set changes the state.
func (c *Conditions) Set(state State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = state
}

// State returns the state.
func (c *Conditions) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// Slow adds a time to each delay. Zero ends that.
func (c *Conditions) Slow(more time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.more = more
}

// Lose makes a share of the answers, from 0 to 1, get lost: the client does not know what became of its commands.
func (c *Conditions) Lose(share float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lose = share
}

// Delay draws the time that the next message takes.
func (c *Conditions) Delay() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.least + c.more
	if c.most > c.least {
		d += time.Duration(c.random.Int64N(int64(c.most - c.least)))
	}
	return d
}

// Loses draws whether an answer is lost.
func (c *Conditions) Loses() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lose > 0 && c.random.Float64() < c.lose
}
