package dashboard

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/state"
	"github.com/headway-go/headway/internal/text/batchref"
)

const (
	// batchesShown is how many batches are listed, the newest first.
	batchesShown = 20
	// failuresShown is how many failed requests the page of a batch lists.
	failuresShown = 50
)

// batchRow is a batch with how far it is.
type batchRow struct {
	batches.Progress

	Link string
	// State is open, ended, cancelled or stopped.
	State   string
	Waiting int
	// Left is how long the rest takes at the rate of the last minute. Zero if that is not known.
	Left time.Duration
	// Stopped is where a stopped batch has stopped, and what has it go on.
	Stopped string
	// Why is what keeps its requests, as the first page has it.
	Why []problem
}

// listBatches are the newest batches.
func (s *Server) listBatches(ctx context.Context) ([]batchRow, error) {
	if s.config.Batches == nil {
		return nil, nil
	}
	found, err := s.config.Batches.List(ctx, batchesShown)
	if err != nil && !errors.Is(err, batches.ErrMalformed) {
		return nil, err
	}
	faults := []error{err} // of single batches
	rows := make([]batchRow, 0, len(found))
	for _, b := range found {
		p, err := s.progress(ctx, b.ID)
		if err != nil && !errors.Is(err, batches.ErrMalformed) {
			return nil, err
		}
		if err != nil {
			faults, p = append(faults, err), batches.Progress{Batch: b}
		}
		rows = append(rows, newBatchRow(p))
	}
	return rows, errors.Join(faults...)
}

// progress counts a batch. All readers share its counter, which reads only what can still change.
func (s *Server) progress(ctx context.Context, id string) (batches.Progress, error) {
	var counter *batches.Counter
	s.counters.Change(id, func(shared **batches.Counter) {
		*shared = cmp.Or(*shared, s.config.Batches.Counter(id))
		counter = *shared
	})
	return counter.Progress(ctx)
}

func newBatchRow(p batches.Progress) batchRow {
	r := batchRow{
		Progress: p, Link: "batch?id=" + url.QueryEscape(p.ID), State: string(p.State),
		Waiting: max(0, p.Requests-p.Done-p.Failed),
	}
	if r.State == string(batches.StateOpen) && r.Waiting == 0 {
		r.State = "ended"
	}
	if p.StoppedBy != "" {
		r.State, r.Stopped = "stopped", "at "+count(p.FailuresMost, "failed request")+
			" (--max-failures). Enqueue its file again to go on."
	}
	if r.State == string(batches.StateOpen) {
		r.Left, _ = p.Pace(time.Now()).Left(r.Waiting)
	}
	return r
}

// batchesData is the page of all batches.
type batchesData struct {
	Kept    bool // the page has the store of batches
	Batches []batchRow
}

func (s *Server) batchesPage(r *http.Request) (view, error) {
	f := s.look(r.Context())
	d := batchesData{Kept: s.config.Batches != nil, Batches: f.Batches}
	return view{Name: "batches", Title: "Batches", Nav: "/batches", Data: d}, f.unread(state.PartBatches, len(f.Batches))
}

// batchData is the page of one batch.
type batchData struct {
	batchRow

	Actions  []action
	Failures []failedRequest
	More     bool
	// Unread is why a failure can't be read, the last of several; empty if all are here.
	Unread string
}

// failedRequest is a request of a batch that ended badly.
type failedRequest struct {
	Line            int
	CustomID, Error string
	Task            string // the page of its task
}

func (s *Server) batchPage(r *http.Request) (view, error) {
	if s.config.Batches == nil {
		return view{}, &notFoundError{what: "This page has no store of batches."}
	}
	b, err := s.config.Batches.Batch(r.Context(), r.URL.Query().Get("id"))
	if err != nil {
		return view{}, err
	}
	p, err := s.progress(r.Context(), b.ID)
	if err != nil {
		return view{}, err
	}
	d := batchData{batchRow: newBatchRow(p)}
	f := s.look(r.Context())
	f.Snapshot.Batches = []state.Batch{d.stuck()}
	d.hold(state.Problems(f.Snapshot))
	d.Actions = s.batchActions(d.batchRow)
	for result, err := range s.config.Batches.FailedOnes(r.Context(), b.ID) {
		if errors.Is(err, batches.ErrMalformed) {
			d.Unread = err.Error()
			continue
		}
		if err != nil {
			return view{}, err
		}
		if d.More = len(d.Failures) == failuresShown; d.More {
			break
		}
		ref := batchref.Ref{Batch: b.ID, Line: result.Line, Round: result.Round}
		d.Failures = append(d.Failures, failedRequest{
			Line: result.Line, CustomID: result.CustomID, Error: firstLine(result.Fault()),
			Task: taskLink(b.Queue, ref.TaskID()),
		})
	}
	return view{Name: "batch", Title: "Batch " + b.Name, Nav: "/batches", Data: d}, nil
}
