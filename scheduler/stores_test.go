package scheduler_test

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
)

// down is a store that never answers.
type down struct{}

func unreachable() error {
	return &reservations.UnavailableError{Bucket: "openai", Applied: reservations.AppliedNo, Err: errors.New("no route")}
}

func (down) Apply(
	context.Context, reservations.Limit, string, []reservations.Request,
) ([]reservations.Outcome, error) {
	return nil, unreachable()
}

func (down) Reset(context.Context, string, string) error { return unreachable() }

func (down) Load(context.Context, string, string) (reservations.Bucket, time.Time, error) {
	return reservations.Bucket{}, time.Time{}, unreachable()
}

// switched is a store that can be down for a while.
type switched struct {
	*memstore.Store

	off atomic.Bool
}

func (s *switched) Apply(
	ctx context.Context, l reservations.Limit, key string, r []reservations.Request,
) ([]reservations.Outcome, error) {
	if s.off.Load() {
		return nil, unreachable()
	}
	return s.Store.Apply(ctx, l, key, r)
}
