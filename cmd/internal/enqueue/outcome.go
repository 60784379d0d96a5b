package enqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/headway-go/headway/internal/batch"
	"github.com/headway-go/headway/internal/batches"
	"github.com/headway-go/headway/internal/cli"
)

// errFaulty is the end of a batch of which some lines were left out.
var errFaulty = errors.New("lines were left out")

// result is what `headway batch --json` prints when all is sent.
type result struct {
	Event    string   `json:"event"`
	Batch    string   `json:"batch,omitempty"`
	Requests int      `json:"requests"` // good lines
	Enqueued int      `json:"enqueued"`
	Waiting  int      `json:"already_queued"`    // sent before, and still under way
	Expired  int      `json:"expired,omitempty"` // not enqueued: they would start too late
	Finished int      `json:"already_done"`      // sent before, and ended
	Faulty   int      `json:"faulty"`
	Faults   []string `json:"faults,omitempty"` // the first of them
	Seconds  float64  `json:"seconds"`
}

// leftOut names the lines that were skipped, whatever became of the others.
func leftOut(r result, name string) error {
	if r.Faulty == 0 {
		return nil
	}
	return fmt.Errorf("%s: %d %w:\n%s", displayName(name), r.Faulty, errFaulty, indented(r))
}

// faultsListed is how many faulty lines are named; more are only counted.
const faultsListed = 20

// indented lists the faults, one a line.
func indented(r result) string {
	text := "  " + strings.Join(r.Faults, "\n  ")
	if more := r.Faulty - len(r.Faults); more > 0 {
		text += fmt.Sprintf("\n  and %d more", more)
	}
	return text
}

func (j *batchJob) await(ctx context.Context, s services, b batches.Batch, file *input) error {
	w := s.watch(b)
	w.show = &show{env: j.env, asJSON: j.asJSON}
	last, waited := w.run(ctx)
	if err := j.leave(ctx, s, b, file, waited); err != nil {
		return errors.Join(waited, err)
	}
	switch {
	case errors.Is(waited, context.Canceled):
		return &interruptedError{fmt.Sprintf("interrupted: %d of %d requests have ended; %s", last.Done+last.Failed,
			last.Requests, s.goesOn(ctx, b.Queue))}
	case waited != nil:
		return waited
	case last.Failed > 0:
		return fmt.Errorf("%d of %d %w; `headway retry %s --failed` sends them again", last.Failed, last.Requests,
			errFailed, b.ID)
	}
	return nil
}

// interruptedError says how far it was when a signal came.
type interruptedError struct{ text string }

func (e *interruptedError) Error() string { return e.text }

// Unwrap says that it was no failure.
func (e *interruptedError) Unwrap() error { return context.Canceled }

// errFailed is the end of a batch of which some requests failed.
var errFailed = errors.New("requests failed")

func (j *batchJob) print(r result, name string) error {
	out := j.env.Out
	if j.standard() {
		out = j.env.Err
	}
	text := fmt.Sprintf("batch %s: %d of %d requests of %s are in queue %q, for limit %s", r.Batch,
		r.Enqueued+r.Waiting, r.Requests, displayName(name), j.queue, j.make.from)
	switch {
	case r.Finished+r.Waiting == 0:
	case r.Finished == r.Requests:
		text = fmt.Sprintf("batch %s: all %d requests of %s have ended; --new runs them once more", r.Batch,
			r.Requests, displayName(name))
	default:
		text += fmt.Sprintf("; %d just enqueued, %d enqueued before, %d already ended", r.Enqueued, r.Waiting,
			r.Finished)
	}
	if r.Expired > 0 {
		text += fmt.Sprintf("; %d expired, because they would start later than --start-by", r.Expired)
	}
	if r.Waiting > 0 && (j.common.Urgent || j.common.Flow+j.common.Priority != "") {
		cli.Warn(j.env, "%d requests were enqueued before: --urgent, --priority and --flow do not change them",
			r.Waiting)
	}
	return cli.Print(out, j.asJSON, r, text)
}

func displayName(name string) string {
	if name == "-" {
		return "standard input"
	}
	return name
}

// leave writes the results so far, when the command waits for no more. Why is the earlier error, if any. If the batch
// was cancelled meanwhile, leave first names the requests of the file without a result. Each of them has a line then,
// even if it was never enqueued.
func (j *batchJob) leave(ctx context.Context, s services, b batches.Batch, file *input, why error) error {
	if errors.Is(why, batches.ErrCancelled) {
		if err := j.nameRest(ctx, s.Batches, b, file); err != nil {
			return fmt.Errorf("note the requests of the cancelled batch that have no answer: %w", err)
		}
	}
	_, err := j.write(context.WithoutCancel(ctx), s.Batches, b.ID, j.env)
	return err
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
