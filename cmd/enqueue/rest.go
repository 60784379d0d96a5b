package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/headway-go/headway/batches"
	"github.com/headway-go/headway/internal/batch"
)

// cancelled sees to a batch that was cancelled while it was sent or waited for: the requests of the file that have no result are named, so that each
// of them has a line in the results, also those that were never enqueued. Then what there is is written.
func (j *batchJob) cancelled(ctx context.Context, s *services, b batches.Batch, file *os.File) error {
	if err := rewind(file); err != nil {
		return err
	}
	var rest []batches.Named
	flush := func() error {
		if len(rest) == 0 {
			return nil
		}
		unnamed := rest
		rest = rest[:0]
		done, err := s.batches.Finished(ctx, b.ID, unnamed[0].Line, unnamed[len(unnamed)-1].Line)
		if err != nil {
			return err
		}
		without := unnamed[:0]
		for _, n := range unnamed {
			if !done.Has(n.Line) {
				without = append(without, n)
			}
		}
		return s.batches.Name(ctx, b.ID, without)
	}
	err := j.make.each(file, false, func(line batch.Line, _ request) error {
		if rest = append(rest, batches.Named{Line: line.Number, CustomID: line.CustomID}); len(rest) < chunk {
			return nil
		}
		return flush()
	}, func(error) {})
	if err = errors.Join(err, flush()); err != nil {
		return fmt.Errorf("note the requests of the cancelled batch that have no answer: %w", err)
	}
	return j.write(ctx, s.batches, b.ID, j.env)
}
