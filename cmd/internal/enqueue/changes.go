package enqueue

import (
	"context"
	"io"

	"github.com/headway-go/headway/cmd/internal/session"
	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/products/requests"
	"github.com/headway-go/headway/internal/setup/cli"
)

// Changes change batches for the page as `headway cancel` and `headway retry --failed` do.
type Changes struct {
	session *session.Session
	file    string
	env     cli.Environment
}

// NewChanges needs a session with batches. File is where the limits are from.
func NewChanges(s *session.Session, file string, env cli.Environment) Changes {
	return Changes{s, file, env}
}

// Cancel deletes the waiting requests of a batch, and returns how many.
func (c Changes) Cancel(ctx context.Context, b batches.Batch) (deleted int, err error) {
	s := services{c.session}
	r, err := s.cancel(ctx, b, c.file)
	if err == nil && !r.over {
		err = s.withdraw(ctx, b, io.Discard, &r)
	}
	return r.Withdrawn, err
}

// Retry enqueues the failed requests of a batch again, as the batch was, and returns how many.
func (c Changes) Retry(ctx context.Context, b batches.Batch) (sent int, err error) {
	t := target{file: c.file, keep: requests.Kept}
	return t.retry(ctx, c.env, services{c.session}, b, 0)
}
