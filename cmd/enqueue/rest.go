package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/headway-go/headway/batches"
	"github.com/headway-go/headway/internal/batch"
)

// leave writes what there is of the results, when nobody waits for more. Why is what went wrong before, if anything: of a batch that was cancelled
// meanwhile, the requests of the file that have no result are named first, so that each of them has a line, also those that were never enqueued.
func (j *batchJob) leave(ctx context.Context, s *services, b batches.Batch, file *input, why error) error {
	if errors.Is(why, batches.ErrCancelled) {
		if err := j.nameRest(ctx, s.batches, b, file); err != nil {
			return fmt.Errorf("note the requests of the cancelled batch that have no answer: %w", err)
		}
	}
	return j.write(context.WithoutCancel(ctx), s.batches, b.ID, j.env)
}

func (j *batchJob) nameRest(ctx context.Context, store *batches.Store, b batches.Batch, file *input) error {
	if err := file.rewind(); err != nil {
		return err
	}
	var rest []batches.Named
	flush := func() error {
		if len(rest) == 0 {
			return nil
		}
		done, err := store.Finished(ctx, b.ID, rest[0].Line, rest[len(rest)-1].Line)
		if err != nil {
			return err
		}
		rest = slices.DeleteFunc(rest, func(n batches.Named) bool { return done.Has(n.Line) })
		err = store.Name(ctx, b.ID, rest)
		rest = rest[:0]
		return err
	}
	err := j.make.each(file, false, func(line batch.Line, _ request) error {
		if rest = append(rest, batches.Named{Line: line.Number, CustomID: line.CustomID}); len(rest) < chunk {
			return nil
		}
		return flush()
	}, func(error) {})
	if err != nil {
		return err
	}
	return flush()
}
