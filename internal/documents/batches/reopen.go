package batches

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/headway-go/headway/internal/documents"
)

// sendBytes is about how many bytes of requests Reopen holds at a time.
const sendBytes = 8_000_000

// Reopen puts the failed results of a batch back: it deletes the results, and keeps attempts and usage. Then it calls
// send with the requests, in the order of the lines, a few hundred or a few MB at a time. It returns how many
// requests were sent.
//
// Send must enqueue all of them, or return an error. It may get a request twice, if the process is killed or fails
// before Reopen has stored that the request was sent. Give each task an ID of batch, line and [Result.Round], so that
// it is enqueued once. If a call does not end, the next call sends the requests that it put back. Failed results
// without a stored request stay. If a line is given, Reopen puts back no other; zero means all. Reopen also puts back
// the results of a cancelled batch. Requests that can't be read are passed over, and named in an error that matches
// ErrMalformed.
func (s *Store) Reopen(
	ctx context.Context, batch string, line int, send func(context.Context, []Result) error,
) (n int, err error) {
	if err = s.putBack(ctx, batch, line); err != nil {
		return 0, err
	}
	var results []Result
	size := 0
	flush := func() error {
		if len(results) == 0 {
			return nil
		}
		if err = send(ctx, results); err != nil {
			return err
		}
		n += len(results)
		err = s.sent(ctx, batch, results)
		results, size = nil, 0
		return err
	}
	var malformed []error
	for r, err := range s.stream(ctx, batch, func(h resultHead) bool { return h.Again }) {
		if errors.Is(err, ErrMalformed) {
			malformed = append(malformed, err)
			continue
		}
		if err != nil {
			return n, err
		}
		results = append(results, r)
		if size += len(r.Request); len(results) < documents.Page && size < sendBytes {
			continue
		}
		if err := flush(); err != nil {
			return n, err
		}
	}
	err = errors.Join(flush(), errors.Join(malformed...))
	return n, err
}

// putBack deletes the results of failed requests. FailedOnes names the ones that can't be read. The record of the batch
// changes before and after, so that no Counter keeps old sums.
func (s *Store) putBack(ctx context.Context, batch string, line int) error {
	if _, err := s.changeBatch(ctx, "reopen", batch, func(h *batchHead) { h.Begun++ }); err != nil {
		return err
	}
	expires, err := s.expiry(ctx, batch)
	if err != nil {
		return err
	}
	var keys []string
	for h, err := range s.heads(ctx, batch, max(1, line), cmp.Or(line, maxLine)) {
		switch {
		case err != nil && !errors.Is(err, ErrMalformed):
			return of("reopen", batch, err)
		case err == nil && h.Status == statusFailed && h.Kept:
			keys = append(keys, documentID(batch, h.Line))
		}
	}
	err = s.changeResults(ctx, "reopen", batch, keys, func(d *documents.Document, h *resultHead) bool {
		d.Expires = expires
		if h.Status != statusFailed || !h.Kept {
			return false
		}
		h.putBack()
		return true
	})
	if err != nil {
		return err
	}
	_, err = s.changeBatch(ctx, "reopen", batch, func(h *batchHead) {
		h.Ended++
		h.Excused = max(0, h.Excused-len(keys)) // they have failed no more
	})
	return err
}

// sent stores that requests were sent. It skips a request that failed meanwhile and was put back again, because its
// round differs.
func (s *Store) sent(ctx context.Context, batch string, results []Result) error {
	rounds := map[int]int{}
	keys := make([]string, len(results))
	for i, r := range results {
		rounds[r.Line], keys[i] = r.Round, documentID(batch, r.Line)
	}
	return s.changeResults(ctx, "store which requests were sent of", batch, keys,
		func(_ *documents.Document, h *resultHead) bool {
			sent := h.Again && h.Round == rounds[h.Line]
			h.Again = h.Again && !sent
			return sent
		})
}

// changeResults changes documents of a batch that are stored, a page at a time.
func (s *Store) changeResults(
	ctx context.Context, op, batch string, keys []string, change func(*documents.Document, *resultHead) bool,
) error {
	for page := range slices.Chunk(keys, documents.Page) {
		changes := make([]documents.Change, len(page))
		for i, key := range page {
			changes[i] = documents.Change{Key: key, Apply: func(d *documents.Document) (bool, error) {
				h, err := decodeHead(*d)
				if err != nil || d.Version == "" || !change(d, &h) {
					return false, err
				}
				d.Head = encode(h)
				return true, nil
			}}
		}
		if err := errors.Join(documents.Update(ctx, s.results, changes)...); err != nil {
			return of(op, batch, err)
		}
	}
	return nil
}
