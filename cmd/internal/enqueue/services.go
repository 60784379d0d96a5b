package enqueue

import (
	"context"

	"github.com/headway-go/headway/cmd/internal/session"
	"github.com/headway-go/headway/internal/batches"
	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/internal/config"
	"github.com/headway-go/headway/internal/requests"
)

// services are what a command is connected to.
type services struct{ *session.Session }

func (s services) finder() requests.Finder { return requests.Finder{Store: s.Batches, Queue: s.Queue} }

// openBatches connects to the queue, the buckets and the batches.
func openBatches(ctx context.Context, env cli.Environment, c config.Config) (services, error) {
	s, err := session.Open(ctx, env, c, session.Needs{Sends: true, Batches: true})
	return services{s}, err
}

// openStored is openBatches with the file of the flags, for a command about a batch that is there.
func (t *target) openStored(ctx context.Context, env cli.Environment) (services, error) {
	c, err := config.Load(t.file)
	if err != nil {
		return services{}, err
	}
	return openBatches(ctx, env, c)
}

// openBatch is openStored for a command about one batch, and the batch of that name. The caller closes.
func (t *target) openBatch(ctx context.Context, env cli.Environment, name string) (services, batches.Batch, error) {
	s, err := t.openStored(ctx, env)
	if err != nil {
		return services{}, batches.Batch{}, err
	}
	b, err := s.find(ctx, name)
	if err != nil {
		s.Close(ctx)
	}
	return s, b, err
}
