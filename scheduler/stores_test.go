package scheduler_test

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
)

// down is a store that never answers.
type down struct{}

func unreachable() error {
	return &bucket.UnavailableError{Bucket: "openai", Applied: bucket.AppliedNo, Err: errors.New("no route")}
}

func (s down) Update(ctx context.Context, _, _ string, change reservations.Change) error {
	return bucket.Serve(ctx, change, s.Apply, s.Load)
}

func (down) Apply(
	context.Context, bucket.Limit, string, []bucket.Request,
) ([]bucket.Answer, error) {
	return nil, unreachable()
}

func (down) Reset(context.Context, string, string) error { return unreachable() }

func (down) Load(context.Context, string, string) (bucket.Bucket, time.Time, error) {
	return bucket.Bucket{}, time.Time{}, unreachable()
}

// switched is a store that can be down for a while.
type switched struct {
	*memstore.Store

	off atomic.Bool
}

func (s *switched) Update(ctx context.Context, _, _ string, change reservations.Change) error {
	return bucket.Serve(ctx, change, s.Apply, bucket.Loader(s.Store))
}

func (s *switched) Apply(
	ctx context.Context, l bucket.Limit, key string, r []bucket.Request,
) ([]bucket.Answer, error) {
	if s.off.Load() {
		return nil, unreachable()
	}
	return bucket.Apply(ctx, s.Store, l, key, r)
}
