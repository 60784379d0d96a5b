package enqueue

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/products/batch"
	"github.com/headway-go/headway/internal/products/requests"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/text/batchref"
	"github.com/headway-go/headway/internal/text/shell"
	"github.com/headway-go/headway/tasks"
)

func retryCommand(env cli.Environment) *cobra.Command {
	var t target
	var failed, asJSON bool
	c := &cobra.Command{
		Use:   "retry {BATCH --failed | BATCH:CUSTOM_ID}",
		Short: "Send the failed requests of a batch again, or one of them",
		Long: `Retry puts the requests of the batch back that failed, and enqueues them as the batch was: for the same
limits, in the same queue. Their errors so far stay with them; their new results replace the old ones.`,
		Example: `  headway retry 3f2a --failed
  headway retry 3f2a:request-17`,
		Args: cli.Named("one BATCH, as `headway status` lists them"),
	}
	t.configFlag(c)
	c.Flags().BoolVar(&failed, "failed", false, "all failed requests of BATCH")
	t.sharingFlags(c)
	t.keepFlag(c, requests.Kept, keptBatch)
	c.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		name, customID, one := strings.Cut(args[0], ":")
		if one == failed {
			return cli.Usage("name one request, BATCH:CUSTOM_ID, or all failed ones, BATCH --failed: requests that succeeded " +
				"are not sent again")
		}
		s, b, err := t.openBatch(c.Context(), env, name)
		if err != nil {
			return err
		}
		defer s.Close(c.Context())
		line := 0 // all that failed
		if one {
			if line, err = s.failedLine(c.Context(), b, customID); err != nil {
				return err
			}
		}
		n, err := t.retry(c.Context(), env, s, b, line)
		if err != nil && n == 0 {
			return err
		}
		if err != nil {
			return fmt.Errorf("%d requests of batch %s were enqueued again before (the same command goes on there): %w",
				n, b.ID, err)
		}
		text := fmt.Sprintf("batch %s: %s in queue %q again", b.ID,
			cli.Plural(n, "failed request is", "failed requests are"), b.Queue)
		if n == 0 && !one {
			text = fmt.Sprintf("batch %s has no failed requests: there is nothing to send again", b.ID)
		}
		return cli.Print(env.Out, asJSON, struct {
			Batch    string `json:"batch"`
			Enqueued int    `json:"enqueued"`
		}{b.ID, n}, text)
	}
	return c
}

// failedLine returns the line of a failed request.
func (s services) failedLine(ctx context.Context, b batches.Batch, customID string) (int, error) {
	ref, err := s.finder().Named(ctx, b, customID)
	if err != nil {
		return 0, err
	}
	r, ended, err := s.Batches.Find(ctx, b.ID, ref.Line)
	switch {
	case err != nil:
		return 0, err
	case !ended:
		return 0, fmt.Errorf("request %q of batch %s has not ended: `%s` says why", customID, b.ID,
			shell.Command("headway explain", b.ID+":"+customID))
	case !r.Failed():
		return 0, fmt.Errorf("request %q of batch %s was answered, and is not sent again", customID, b.ID)
	case len(r.Request) == 0:
		return 0, fmt.Errorf("request %q of batch %s was too large to keep with its result: enqueue its line in a file "+
			"of its own", customID, b.ID)
	}
	return ref.Line, nil
}

// retry enqueues the failed requests of a batch again, as the batch was. If a line is given, it enqueues no other.
func (t *target) retry(
	ctx context.Context, env cli.Environment, s services, b batches.Batch, line int,
) (int, error) {
	if b.State == batches.StateCancelled {
		return 0, cli.Usage("batch %s was %w; enqueue its file again first", b.ID, batches.ErrCancelled)
	}
	if err := t.checkKeep(); err != nil {
		return 0, err
	}
	t.limits, t.queue, t.retries = strings.Split(b.Limit, batches.LimitsBetween), b.Queue, b.Retries
	options, err := t.options(ctx, env)
	if err != nil {
		return 0, err
	}
	options.SkipExisting = true
	t.large = true
	from, err := t.load(ctx, env, "") // the kept request has its model
	if err != nil {
		return 0, err
	}
	for r, err := range s.Batches.FailedOnes(ctx, b.ID) { // first: what is put back has its error no more
		if errors.Is(err, batches.ErrMalformed) {
			cli.Warn(env, "%v: it is not sent again", err)
			continue
		}
		if err == nil && len(r.Request) > 0 && (line == 0 || line == r.Line) {
			_, err = from.kept(r)
		}
		if err != nil {
			return 0, fmt.Errorf("no request was sent again: %w", err)
		}
	}
	dead, err := s.Buckets.Dead(ctx)
	if err != nil {
		return 0, err
	}
	n, failed := s.Batches.Reopen(ctx, b.ID, line, func(ctx context.Context, results []batches.Result) error {
		args := make([]tasks.Args, len(results))
		var before []string
		for i, r := range results {
			task, err := from.kept(r)
			if err != nil {
				return err
			}
			args[i] = task.of(b, r.Round)
			for round := range r.Round {
				before = append(before, batchref.Ref{Batch: b.ID, Line: r.Line, Round: round}.TaskID())
			}
		}
		if _, err := s.Scheduler.EnqueueMany(ctx, args, options); err != nil {
			return err
		}
		return dead.Recorder().SentAgain(ctx, b.Queue, before)
	})
	if failed != nil {
		return n, failed
	}
	return n, s.heal(ctx, b) // an archived task may have the ID of a request that was sent again
}

// kept is the task of a request that was kept with its result.
func (s *source) kept(r batches.Result) (request, error) {
	line, err := batch.Parse(r.Line, r.Request, false)
	if err != nil {
		return request{}, fmt.Errorf("the request as it was kept: %w", err)
	}
	task, err := s.task(line)
	if err != nil {
		err = &batch.LineError{Line: r.Line, Err: err}
	}
	return task, err
}
