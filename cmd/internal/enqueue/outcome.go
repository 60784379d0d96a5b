package enqueue

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/text/shell"
)

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

	MaxFailures int `json:"max_failures,omitempty"` // failed requests that stop the batch
}

// faultsListed is how many faulty lines are named; more are only counted.
const faultsListed = 20

// faults lists the faults, one a line.
func (r result) faults() string {
	text := "  " + strings.Join(r.Faults, "\n  ")
	if more := r.Faulty - len(r.Faults); more > 0 {
		text += fmt.Sprintf("\n  and %d more", more)
	}
	return text
}

func (j *batchJob) await(ctx context.Context) error {
	w := j.s.watch(j.batch)
	w.show = &show{env: j.env, asJSON: j.asJSON}
	last, waited := w.run(ctx)
	kept, err := j.leave(ctx, waited)
	if err != nil {
		return errors.Join(waited, err)
	}
	switch {
	case errors.Is(waited, context.Canceled):
		ended := max(last.Done+last.Failed, kept.Done+kept.Failed, j.result.Finished)
		return &interruptedError{fmt.Sprintf("interrupted: %d of %d requests have ended%s; %s; `%s` stops it", ended,
			last.Requests, j.writtenText(kept), j.s.goesOn(ctx, j.queue),
			shell.Command("headway cancel", last.ID))}
	case waited != nil:
		return waited
	case last.Failed > 0:
		return fmt.Errorf("%d of %d requests failed; `%s` sends them again", last.Failed, last.Requests,
			shell.Command("headway retry", last.ID, "--failed"))
	}
	return nil
}

// interruptedError says how far it was when a signal came.
type interruptedError struct{ text string }

func (e *interruptedError) Error() string { return e.text }

// Unwrap says that it was no failure.
func (e *interruptedError) Unwrap() error { return context.Canceled }

func (j *batchJob) print() error {
	out, r := j.env.Out, j.result
	if j.standard() {
		out = j.env.Err
	}
	text := fmt.Sprintf("batch %s: %d of %d requests of %s are in queue %q, for limit %s", r.Batch,
		r.Enqueued+r.Waiting, r.Requests, j.name, j.queue, j.from)
	switch {
	case r.Finished+r.Waiting == 0:
	case r.Finished == r.Requests:
		text = fmt.Sprintf("batch %s: all %d requests of %s have ended; --new runs them once more", r.Batch,
			r.Requests, j.name)
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

// leave writes the results so far, when the command waits for no more. Why is the earlier error, if any. If the batch
// was cancelled meanwhile, leave first names the requests of the file without a result. Each of them has a line then,
// even if it was never enqueued.
func (j *batchJob) leave(ctx context.Context, why error) (written, error) {
	if errors.Is(why, batches.ErrCancelled) {
		if err := j.nameRest(ctx); err != nil {
			return written{}, fmt.Errorf("note the requests of the cancelled batch that have no answer: %w", err)
		}
	}
	return j.write(context.WithoutCancel(ctx), j.s.Batches, j.result.Batch, j.env)
}

// writtenText says what the files have; empty if none was named.
func (j *batchJob) writtenText(w written) string {
	var parts []string
	for _, file := range []struct {
		name string
		n    int
		one  string
		more string
	}{
		{j.out, w.Done, "answer is in ", "answers are in "},
		{j.errors, w.Failed + w.Cancelled, "failure is in ", "failures are in "},
	} {
		switch {
		case file.name == "-":
			parts = append(parts, cli.Plural(file.n, file.one, file.more)+"standard output")
		case file.name != "":
			parts = append(parts, cli.Plural(file.n, file.one, file.more)+file.name)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "; " + strings.Join(parts, ", ")
}

func (j *batchJob) nameRest(ctx context.Context) error {
	j.input.rewind()
	return j.chunks(func(some []request) error {
		known, err := j.s.Batches.Lines(ctx, j.result.Batch, some[0].line.Number, some[len(some)-1].line.Number)
		if err != nil {
			return err
		}
		var rest []batches.Named
		for _, task := range some {
			if line := task.line; !known.Ended(line.Number) {
				rest = append(rest, batches.Named{Line: line.Number, CustomID: line.CustomID})
			}
		}
		return j.s.Batches.Name(ctx, j.result.Batch, rest)
	})
}
