package batches

import (
	"context"
	"errors"
	"iter"

	"github.com/headway-go/headway/internal/documents"
)

// Find returns the stored document of a request. ok is true if it has a result. If not, the Result has the attempts
// so far.
func (s *Store) Find(ctx context.Context, batch string, line int) (r Result, ok bool, err error) {
	if err = checkLine(batch, line); err != nil {
		return Result{}, false, err
	}
	key := documentID(batch, line)
	found, err := s.results.Get(ctx, []string{key}, true)
	if err != nil {
		return Result{}, false, ofLine("read", batch, line, err)
	}
	d, stored := found[key]
	if !stored {
		return Result{}, false, nil
	}
	if r, err = decode(d); err != nil {
		return Result{}, false, err
	}
	h, err := decodeHead(d)
	return r, h.Status != "", err
}

// FindNamed returns the stored document of the request with this custom_id. Found is false if there is none, as of a
// request that waits for its first attempt. FindNamed reads the documents of the batch.
func (s *Store) FindNamed(ctx context.Context, batch, customID string) (r Result, found bool, err error) {
	name := cut(customID, maxName)
	for r, err := range s.stream(ctx, batch, func(h resultHead) bool { return h.CustomID == name }) {
		return r, err == nil, err
	}
	return Result{}, false, nil
}

// Lines returns the stored requests among the lines from to to, both included.
func (s *Store) Lines(ctx context.Context, batch string, from, to int) (Lines, error) {
	if err := checkLine(batch, from); err != nil || to < from {
		return nil, err
	}
	if err := checkLine(batch, to); err != nil {
		return nil, err
	}
	lines := Lines{}
	for h, err := range s.heads(ctx, batch, from, to) {
		switch {
		case err != nil && !errors.Is(err, ErrMalformed):
			return nil, of("read the lines of", batch, err)
		case h.Line == 0: // it is no line
		case h.Status != "":
			lines[h.Line] = ended
		default:
			lines[h.Line] = h.Round
		}
	}
	return lines, nil
}

// heads yields the heads of some lines. An error that matches ErrMalformed is of one of them, beside what can be read
// of it. Any other error is the last value.
func (s *Store) heads(ctx context.Context, batch string, from, to int) iter.Seq2[resultHead, error] {
	return func(yield func(resultHead, error) bool) {
		page := documents.InKeys(s.results, linesOf(batch, from, to))
		for d, err := range (documents.Reader{Collection: s.results, Page: page}).All(ctx) {
			if err != nil {
				yield(resultHead{}, err)
				return
			}
			if !yield(decodeHead(d)) {
				return
			}
		}
	}
}

// Lines are stored requests by their lines: ended, or how often [Store.Reopen] put the request back.
type Lines map[int]int

const ended = -1

// Ended returns whether a line has a result, good or bad.
func (l Lines) Ended(line int) bool { return l[line] == ended }

// Open returns whether a line is stored without a result: it was given to [Store.Name], has a failed attempt, or was
// put back.
func (l Lines) Open(line int) bool {
	round, stored := l[line]
	return stored && round != ended
}

// Round returns how often a line without a result was put back.
func (l Lines) Round(line int) int { return max(0, l[line]) }

// All yields every stored request of a batch in the order of the lines. A request without a result has a zero
// Finished. All reads page by page, so it yields later results if it has not read their page yet.
//
// A document that can't be read is an error that matches ErrMalformed and names its line. The Result beside it has as
// much of Line and CustomID as can be read, and the others follow. Any other error is the last value.
func (s *Store) All(ctx context.Context, batch string) iter.Seq2[Result, error] {
	return s.stream(ctx, batch, nil)
}

// FailedOnes yields the failed results of a batch, in the way of [Store.All].
func (s *Store) FailedOnes(ctx context.Context, batch string) iter.Seq2[Result, error] {
	return s.stream(ctx, batch, func(h resultHead) bool { return h.Status == statusFailed })
}

// stream yields the requests that are wanted by what can be read of their heads; nil wants all.
func (s *Store) stream(ctx context.Context, batch string, wanted func(resultHead) bool) iter.Seq2[Result, error] {
	return func(yield func(Result, error) bool) {
		if err := checkID(batch); err != nil {
			yield(Result{}, err)
			return
		}
		r := documents.Reader{
			Collection: s.results, Page: documents.InKeys(s.results, linesOf(batch, 1, maxLine)), Bodies: true,
		}
		if wanted != nil {
			r.Wanted = func(d documents.Document) bool {
				h, _ := decodeHead(d)
				return wanted(h)
			}
		}
		for d, err := range r.All(ctx) {
			if err != nil {
				yield(Result{}, of("read the results of", batch, err))
				return
			}
			if !yield(decode(d)) {
				return
			}
		}
	}
}

// Named is a request without a result, with its custom_id.
type Named struct {
	Line     int
	CustomID string
}

// Name stores the names of requests that have no result and may never get one, e.g. in a cancelled batch. It does not
// change requests with a result.
func (s *Store) Name(ctx context.Context, batch string, named []Named) error {
	if len(named) == 0 {
		return nil
	}
	expires, err := s.expiry(ctx, batch)
	if err != nil {
		return err
	}
	changes := make([]documents.Change, len(named))
	for i, n := range named {
		if err = checkLine(batch, n.Line); err != nil {
			return err
		}
		name := func(d *documents.Document) (bool, error) {
			h, malformed := decodeHead(*d)
			if malformed != nil || h.Status != "" {
				return false, malformed
			}
			if d.Version == "" {
				h.CustomID = cut(n.CustomID, maxName)
			}
			d.Head, d.Expires = encode(h), expires
			return true, nil
		}
		changes[i] = documents.Change{Key: documentID(batch, n.Line), New: true, Apply: name}
	}
	return of("store names of requests of", batch, errors.Join(documents.Update(ctx, s.results, changes)...))
}

// Trouble is the newest error of a batch.
type Trouble struct {
	Attempt

	// Requests is the number of requests without a good answer whose last error has the same status. Requests without
	// an attempt have the code of their failure instead.
	Requests int
}

// Trouble returns the newest error among requests that failed, or wait for another attempt. It is zero if there is
// none. The error of a request without an attempt, such as an expired one, is its Failure.
func (s *Store) Trouble(ctx context.Context, batch string) (Trouble, error) {
	if err := checkID(batch); err != nil {
		return Trouble{}, err
	}
	type kind struct {
		status int
		code   string
	}
	found := map[kind]Trouble{}
	for h, err := range s.heads(ctx, batch, 1, maxLine) {
		if err != nil && !errors.Is(err, ErrMalformed) {
			return Trouble{}, of("read the errors of", batch, err)
		}
		var k kind
		var last Attempt
		switch n := len(h.Attempts); {
		case h.Status == statusDone:
			continue
		case n > 0:
			last = h.Attempts[n-1]
			k.status = last.StatusCode
		case h.Failure != nil:
			last = Attempt{At: h.Finished, Error: h.Failure.Code + ": " + h.Failure.Message}
			k.code = h.Failure.Code
		default:
			continue
		}
		t := found[k]
		if t.Requests++; !last.At.Before(t.At) {
			t.Attempt = last
		}
		found[k] = t
	}
	var newest Trouble
	for _, t := range found {
		if !t.At.Before(newest.At) {
			newest = t
		}
	}
	return newest, nil
}
