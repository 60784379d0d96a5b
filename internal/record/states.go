package record

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/headway-go/headway/batches"
)

const (
	stateFresh    = 3 * time.Second // how long the state of a batch is believed
	statePatience = 5 * time.Second
	statesKept    = 1000
)

// states are what this process knows of its batches. Nobody waits for an answer on the way to a call: what is known counts, and is asked for
// anew in the background.
type states struct {
	store *batches.Store

	mu    sync.Mutex // guards what is below
	known map[string]state
	asks  sync.WaitGroup
}

type state struct {
	cancelled bool
	asked     time.Time // when it was last asked for
}

// cancelled says whether the batch was, some seconds ago.
func (s *states) cancelled(batch string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.known[batch]
	if time.Since(known.asked) >= stateFresh {
		if s.known == nil || len(s.known) >= statesKept {
			s.known = map[string]state{}
		}
		s.known[batch] = state{cancelled: known.cancelled, asked: time.Now()}
		s.asks.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), statePatience)
			defer cancel()
			_, _ = s.ask(ctx, batch) // what was known goes on to count
		})
	}
	return known.cancelled
}

// ask asks the store, and keeps the answer.
func (s *states) ask(ctx context.Context, batch string) (cancelled bool, err error) {
	found, err := s.store.Batch(ctx, batch)
	if errors.Is(err, batches.ErrUnknownBatch) {
		err = nil // its record has expired: results are kept all the same
	}
	if err != nil {
		return false, err
	}
	cancelled = found.ID == batch && found.State == batches.StateCancelled
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = map[string]state{}
	}
	s.known[batch] = state{cancelled: cancelled, asked: time.Now()}
	return cancelled, nil
}

func (s *states) wait() { s.asks.Wait() }
