package batches

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headway-go/headway/internal/documents"
)

// Attempt stores a failed attempt of a request that has not ended. It stores the same attempt only once. It drops
// attempts of a request that has ended, and attempts above [AttemptsMost].
func (s *Store) Attempt(ctx context.Context, batch string, line int, customID string, a Attempt) error {
	if err := checkLine(batch, line); err != nil {
		return err
	}
	expires, err := s.expiry(ctx, batch)
	if err != nil {
		return err
	}
	change := documents.Change{Key: documentID(batch, line), New: true, Apply: func(d *documents.Document) (bool, error) {
		h, malformed := decodeHead(*d)
		if malformed != nil || h.Status != "" || len(h.Attempts) >= AttemptsMost {
			return false, malformed
		}
		h.CustomID = cut(customID, maxName)
		h.add(a)
		d.Head, d.Expires = encode(h), expires
		return true, nil
	}}
	if err = documents.UpdateOne(ctx, s.results, change); err != nil {
		return ofLine("store an attempt of", batch, line, err)
	}
	return nil
}

// Finish stores the result of a request that has none. It takes one round trip, and a few more if another writer
// changes the same document. After Finish returns without an error, the request has a result: this one, or one that
// was stored before. The result never changes, unless [Store.Reopen] puts it back. After an error this result may be
// stored or not: call Finish again.
func (s *Store) Finish(ctx context.Context, r Result) error { return s.FinishMany(ctx, []Result{r})[0] }

// FinishMany is [Store.Finish] for several results, in one round trip. The errors are in the order of the results.
// A result that fails does not stop the others. A result that is too large for its document is stored as a failure
// with [CodeTooLarge]: without its answer, its request, or both.
func (s *Store) FinishMany(ctx context.Context, results []Result) []error {
	errs := make([]error, len(results))
	todo := make([]*finished, 0, len(results))
	for i, r := range results {
		if errs[i] = checkLine(r.Batch, r.Line); errs[i] != nil {
			continue
		}
		var expires time.Time
		if expires, errs[i] = s.expiry(ctx, r.Batch); errs[i] != nil {
			continue
		}
		if r.Finished.IsZero() {
			r.Finished = s.now()
		}
		r.Finished = r.Finished.UTC().Truncate(time.Millisecond)
		todo = append(todo, &finished{Result: r, expires: expires, err: &errs[i]})
	}
	for len(todo) > 0 {
		changes := make([]documents.Change, len(todo))
		for i, f := range todo {
			changes[i] = documents.Change{Key: documentID(f.Batch, f.Line), New: true, Apply: f.apply}
		}
		var again []*finished
		for i, err := range documents.Update(ctx, s.results, changes) {
			switch f := todo[i]; {
			case err == nil:
			case errors.Is(err, ErrTooLarge) && f.shrink():
				again = append(again, f)
			default:
				*f.err = ofLine("finish", f.Batch, f.Line, err)
			}
		}
		todo = again
	}
	return errs
}

// finished is a result on its way into its document.
type finished struct {
	Result

	expires time.Time
	err     *error
}

func (f *finished) apply(d *documents.Document) (bool, error) {
	h, err := decodeHead(*d)
	if err != nil || h.Status != "" {
		return false, err
	}
	h.finish(d, f.Result)
	d.Head, d.Expires = encode(h), f.expires
	return true, nil
}

// shrink removes the answer of a result, or its request and its attempts: the larger of both. It returns false if
// neither is left.
func (f *finished) shrink() bool {
	what, size := "request for a retry", len(f.Request)
	switch r := &f.Result; {
	case r.Response != nil && len(r.Response.Body) > size:
		what, size = "answer", len(r.Response.Body)
		r.Response = &Response{StatusCode: r.Response.StatusCode, RequestID: r.Response.RequestID}
	case size+len(r.Attempts) > 0:
		r.Request, r.Attempts = nil, nil
	default:
		return false
	}
	text := fmt.Sprintf("the %s of %d bytes does not fit into a document of 15 MiB and was not stored", what, size)
	if f.Failure != nil {
		text = f.Failure.Message + "; " + text
	}
	f.Failure = &Failure{Code: CodeTooLarge, Message: text}
	return true
}
