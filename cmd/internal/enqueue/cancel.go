package enqueue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/products/batch"
	"github.com/headway-go/headway/internal/products/chat"
	"github.com/headway-go/headway/internal/products/record"
	"github.com/headway-go/headway/internal/setup/cli"
)

// cancelled is what `headway cancel --json` prints.
type cancelled struct {
	Batch     string `json:"batch"`
	Withdrawn int    `json:"withdrawn"` // deleted from the queue
	Ended     int    `json:"ended"`     // have a result
	Left      int    `json:"left"`      // all others, except requests that were cancelled before
	Before    int    `json:"cancelled_before"`
	Running   int    `json:"running"` // come to their end, and their results count
	Never     int    `json:"never_enqueued"`
	Missing   int    `json:"missing"` // were enqueued, and are not in the queue
	over      bool   // all requests had ended
	again     bool   // it was cancelled already
}

// text is that for people.
func (c cancelled) text() string {
	if c.over {
		return fmt.Sprintf("batch %s has ended: there is nothing to cancel", c.Batch)
	}
	began := fmt.Sprintf("batch %s is cancelled: %d requests are deleted", c.Batch, c.Withdrawn)
	if c.again {
		began = fmt.Sprintf("batch %s was cancelled already: %d requests were cancelled before, %d are deleted now",
			c.Batch, c.Before, c.Withdrawn)
	}
	text := fmt.Sprintf("%s, %d had ended, %s running, %d were never enqueued", began, c.Ended,
		cli.Plural(c.Running, "is", "are"), c.Never)
	if c.Missing > 0 {
		text += fmt.Sprintf(", %d are not in the queue any more", c.Missing)
	}
	return text
}

func cancelCommand(env cli.Environment) *cobra.Command {
	var t target
	var asJSON bool
	c := &cobra.Command{
		Use:   "cancel BATCH|BATCH:CUSTOM_ID",
		Short: "Delete the waiting requests of a batch, or one, and release what they reserved",
		Long: `Cancel deletes the waiting requests of the batch and releases the tokens that they reserved. The tasks
behind them have these tokens at once, in their order. Requests that run come to their end, and their results count. A
batch whose requests have all ended stays as it is.

In what "headway results" writes, the others have a line in the error file, with the code batch_cancelled.

Enqueue the same file again to go on where it was.

BATCH:CUSTOM_ID is one request: it fails with the code request_cancelled, the others go on, and "headway retry
BATCH:CUSTOM_ID" sends it again.`,
		Example: `  headway cancel 3f2a
  headway cancel 3f2a:request-17`,
		Args: cli.Named("one BATCH, as `headway status` lists them"),
	}
	t.configFlag(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		name, customID, one := strings.Cut(args[0], ":")
		s, b, err := t.openBatch(c.Context(), env, name)
		if err != nil {
			return err
		}
		defer s.Close(c.Context())
		if one {
			return s.cancelOne(c.Context(), env, b, customID, t.file, asJSON)
		}
		r, err := s.cancel(c.Context(), b, t.file)
		if err != nil {
			return err
		}
		if !r.over {
			if err = s.withdraw(c.Context(), b, env.Err, &r); err != nil {
				return fmt.Errorf("batch %s is cancelled, but %d of its requests may still be in the queue, where workers "+
					"drop them: %w", b.ID, r.Left, err)
			}
		}
		return cli.Print(env.Out, asJSON, r, r.text())
	}
	return c
}

// canGiveBack wants the limits of the batch to be known, by the file or live workers: reservations of an unknown limit
// can't be released. The error is a *cli.UsageError.
func (s services) canGiveBack(b batches.Batch, file string) error {
	for bucket := range strings.SplitSeq(b.Limit, batches.LimitsBetween) {
		name, _, _ := strings.Cut(bucket, ":")
		if _, err := inside.Of(s.Limiter).Limits().For(name, ""); err != nil {
			return cli.Usage("batch %s is not cancelled: its requests take from limit %s, which neither %s nor a live worker "+
				"has, so what they reserved could not be released; name the file of the workers with --config", b.ID, name, file)
		}
	}
	return nil
}

// cancel marks the batch, so that it is no longer enqueued and workers drop what they receive of it. A batch whose
// requests have ended stays as it is. File is where the limits are from.
func (s services) cancel(ctx context.Context, b batches.Batch, file string) (cancelled, error) {
	counts, err := s.Batches.Counts(ctx, b.ID)
	if err != nil {
		return cancelled{}, err
	}
	if ended := counts.Done + counts.Failed; ended >= b.Requests && b.State == batches.StateOpen {
		return cancelled{Batch: b.ID, Ended: ended, over: true}, nil
	}
	if err = s.canGiveBack(b, file); err == nil {
		err = s.Batches.Cancel(ctx, b.ID)
	}
	return cancelled{Batch: b.ID, Left: b.Requests, again: b.State == batches.StateCancelled}, err
}

// withdraw deletes what waits of a cancelled batch, and counts the rest. Out is for the progress.
func (s services) withdraw(ctx context.Context, b batches.Batch, out io.Writer, r *cancelled) error {
	bar := cli.NewProgress(out, "cancelled", b.Lines)
	defer bar.Close()
	for taken, err := range s.finder().TakeBack(ctx, b, s.Scheduler.Delete) {
		r.Ended += taken.Ended
		r.Withdrawn += len(taken.Withdrawn)
		r.Left = max(0, b.Requests-r.Ended-r.Withdrawn)
		if err != nil {
			return err
		}
		bar.Set(taken.To)
	}
	return s.tellApart(ctx, b, r)
}

// tellApart sorts the requests that were neither deleted nor ended: each one runs, was cancelled before, or was never
// enqueued. If this call cancelled the batch, a request that a worker dropped since then counts as deleted. Requests
// that ended since then count as ended.
func (s services) tellApart(ctx context.Context, b batches.Batch, r *cancelled) error {
	if r.Left == 0 || b.Lines == 0 {
		return nil
	}
	running, err := s.active(ctx, b)
	if err != nil {
		return err
	}
	counts, err := s.Batches.Counts(ctx, b.ID) // some have ended meanwhile
	if err != nil {
		return err
	}
	r.Ended = counts.Done + counts.Failed
	r.Left = max(0, b.Requests-r.Ended-r.Withdrawn)
	first, last := b.Lines, 1
	for _, ref := range running {
		first, last = min(first, ref.Line), min(b.Lines, max(last, ref.Line))
	}
	known, err := s.Batches.Lines(ctx, b.ID, first, last)
	if err != nil {
		return err
	}
	dropped := counts.Unanswered - r.Withdrawn
	for _, ref := range running {
		if known.Open(ref.Line) { // an attempt failed, and the next one runs
			dropped--
		}
	}
	dropped = min(r.Left, max(0, dropped))
	if r.again {
		r.Before = dropped
	} else {
		r.Withdrawn += dropped
	}
	r.Left -= dropped
	r.Running = min(r.Left, len(running))
	if rest := r.Left - r.Running; b.Enqueued < b.Lines {
		r.Never = rest
	} else {
		r.Missing = rest
	}
	return nil
}

// codeRequestCancelled is the failure of a request that was cancelled by itself.
const codeRequestCancelled = "request_cancelled"

// cancelOne deletes the task of one request, and stores that it failed.
func (s services) cancelOne(
	ctx context.Context, env cli.Environment, b batches.Batch, customID, file string, asJSON bool,
) error {
	if err := s.canGiveBack(b, file); err != nil {
		return err
	}
	ref, err := s.finder().Named(ctx, b, customID)
	if err != nil {
		return err
	}
	withdrawn, err := s.Scheduler.Delete(ctx, b.Queue, ref.TaskID())
	if err != nil {
		return err
	}
	task := withdrawn[0]
	if task == nil {
		r, ended, failed := s.Batches.Find(ctx, b.ID, ref.Line)
		if failed != nil {
			return failed
		}
		if ended && r.Failure != nil && r.Failure.Code == codeRequestCancelled {
			return cli.Print(env.Out, asJSON, cancelled{Batch: b.ID, Before: 1},
				fmt.Sprintf("request %s of batch %s was cancelled already", cli.Line(customID), b.ID))
		}
		return fmt.Errorf("request %q of batch %s is not cancelled: it runs or has ended", customID, b.ID)
	}
	q, ok := chat.Request(task.Type(), task.Payload())
	if !ok {
		q = record.Request{Ref: ref, Line: batch.Line{CustomID: customID}}
	}
	failed := record.Failed(q, codeRequestCancelled, errors.New("this request was cancelled"))
	if err = s.Batches.Finish(ctx, failed); err != nil {
		return fmt.Errorf("request %q of batch %s was taken out of the queue, but that was not stored; "+
			"enqueue the file again to go on: %w", customID, b.ID, err)
	}
	return cli.Print(env.Out, asJSON, cancelled{Batch: b.ID, Withdrawn: 1},
		fmt.Sprintf("request %s of batch %s is cancelled", cli.Line(customID), b.ID))
}
