package simulate

import (
	"errors"
	"fmt"
	"time"

	"github.com/headway-go/headway/reservations"
)

// CallsMost bounds the calls of one simulation, which are in memory.
const CallsMost = 20_000_000

// Arrivals are generated calls: a backlog at the start, and calls at random times (a Poisson process) for a while.
type Arrivals struct {
	// Backlog is how many calls are there at the start.
	Backlog int
	// Rate is how many calls arrive a second on average, and For how long. Zero means none.
	Rate float64
	For  time.Duration
	// Seed makes their times, tokens, latencies and flows.
	Seed uint64
}

// Calls makes the calls of a pattern. The error names a field and its value.
func (a Arrivals) Calls(p Pattern, limits []reservations.Limit) ([]Call, error) {
	m, err := newMaker(p, limits, a.Seed)
	if err != nil {
		return nil, err
	}
	expected := float64(a.Backlog) + a.Rate*a.For.Seconds()
	switch {
	case a.Backlog < 0:
		return nil, fmt.Errorf("backlog: %d must be zero or more", a.Backlog)
	case !(a.Rate >= 0):
		return nil, fmt.Errorf("arrive: %v calls a second must be zero or more", a.Rate)
	case a.For < 0 || a.For > UntilDefault:
		return nil, fmt.Errorf("for: %v must be from 0 to %v", a.For, UntilDefault)
	case !(expected <= CallsMost):
		return nil, fmt.Errorf("arrive: about %.0f calls are more than %d: simulate a shorter time", expected, CallsMost)
	}
	calls := make([]Call, 0, int(expected*1.01)+100)
	add := func(at time.Duration) error {
		c, err := m.draw(at)
		calls = append(calls, c)
		return err
	}
	for range a.Backlog {
		if err := add(0); err != nil {
			return nil, err
		}
	}
	random, at := stream(a.Seed, streamArrivals), 0.
	for a.Rate > 0 {
		at += random.ExpFloat64() / a.Rate
		if !(at < a.For.Seconds()) {
			break
		}
		if err := add(seconds(at)); err != nil {
			return nil, err
		}
	}
	if len(calls) == 0 {
		return nil, ErrNoCalls
	}
	return calls, nil
}

// ErrNoCalls means that there is nothing to simulate.
var ErrNoCalls = errors.New("no calls to simulate")
