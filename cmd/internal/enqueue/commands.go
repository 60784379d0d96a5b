// Package enqueue has the commands that put tasks into the queue, and follow them: a whole file in the OpenAI Batch
// format, or one request.
package enqueue

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/cmd/internal/session"
	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/products/requests"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/config"
)

// Commands returns `headway enqueue` and answer, and batch, status, results, retry and cancel.
//
// Everything is checked before anything is sent: the file's lines, the limit, and that each request can ever be served.
func Commands(env cli.Environment) []*cobra.Command {
	return []*cobra.Command{
		oneCommand(env), answerCommand(env), batchCommand(env), statusCommand(env), resultsCommand(env), retryCommand(env),
		cancelCommand(env),
	}
}

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
	s, err := session.Load(ctx, env, t.file, session.Needs{Sends: true, Batches: true})
	return services{s}, err
}

// openBatch is openStored for a command about one batch, and the batch of that name. The caller closes.
func (t *target) openBatch(ctx context.Context, env cli.Environment, name string) (services, batches.Batch, error) {
	s, err := t.openStored(ctx, env)
	if err != nil {
		return s, batches.Batch{}, err
	}
	b, err := s.find(ctx, name)
	if err != nil {
		s.Close(ctx)
	}
	return s, b, err
}

// find is the batch of that name. An unknown or ambiguous name is a *cli.UsageError.
func (s services) find(ctx context.Context, name string) (batches.Batch, error) {
	b, err := s.Batches.Batch(ctx, name)
	switch {
	case name == "":
		return b, cli.Usage("the name of the batch is empty; `headway status` lists the newest")
	case errors.Is(err, batches.ErrBatchID):
		return b, cli.Usage("%.80q is no name of a batch, which is short and has only letters, digits, - and _; `headway "+
			"status` lists the newest", name)
	case errors.Is(err, batches.ErrUnknownBatch), errors.Is(err, batches.ErrAmbiguousBatch):
		return b, cli.Usage("%w; `headway status` lists the newest", err)
	}
	return b, err
}
