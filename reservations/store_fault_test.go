package reservations_test

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

// faultyStore is a store with a switch: each call meets the next fault, and none when they are used up.
type faultyStore struct {
	reservations.Store

	mu     sync.Mutex // guards what is below
	faults []fault
	calls  [][]bucket.Request
}

type fault string

const (
	down     fault = "down"     // certainly not applied
	lost     fault = "lost"     // applied, but the answer was lost
	unsaid   fault = "unsaid"   // ErrUnavailable: unknown whether it was applied
	hanging  fault = "hanging"  // no answer until the call's context ends
	breaking fault = "breaking" // an error that no store should give
	bare     fault = "bare"     // applied, and a plain ErrUnavailable
)

var errCable = errors.New("cable cut")

func (s *faultyStore) Update(ctx context.Context, _, _ string, change reservations.Change) error {
	return bucket.Serve(ctx, change, s.Apply, bucket.Loader(s.Store))
}

func (s *faultyStore) Apply(ctx context.Context, limit bucket.Limit, key string,
	requests []bucket.Request,
) ([]bucket.Answer, error) {
	unavailable := func(applied bucket.Applied, err error) error {
		return &bucket.UnavailableError{Bucket: bucket.Name(limit.Name, key), Applied: applied, Err: err}
	}
	switch s.next(requests) {
	case down:
		return nil, unavailable(bucket.AppliedNo, errCable)
	case lost:
		if _, err := bucket.Apply(ctx, s.Store, limit, key, requests); err != nil {
			return nil, err
		}
		return nil, unavailable(bucket.AppliedMaybe, errCable)
	case unsaid:
		return nil, unavailable("", errCable)
	case hanging:
		<-ctx.Done()
		return nil, unavailable(bucket.AppliedMaybe, ctx.Err())
	case breaking:
		return nil, errCable
	case bare:
		if _, err := bucket.Apply(ctx, s.Store, limit, key, requests); err != nil {
			return nil, err
		}
		return nil, reservations.ErrUnavailable
	}
	return bucket.Apply(ctx, s.Store, limit, key, requests)
}

func (s *faultyStore) next(requests []bucket.Request) (f fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range requests {
		requests[i].Tokens = slices.Clone(requests[i].Tokens)
	}
	s.calls = append(s.calls, slices.Clone(requests))
	if len(s.faults) > 0 {
		f, s.faults = s.faults[0], s.faults[1:]
	}
	return f
}

// asked are the requests of all calls so far.
func (s *faultyStore) asked() [][]bucket.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}
