package dashboard

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"net/url"
	"time"

	"github.com/headway-go/headway/internal/batches"
	"github.com/headway-go/headway/internal/batchref"
)

const (
	// batchesShown is how many batches are listed, the newest first.
	batchesShown = 20
	// failuresShown is how many failed requests the page of a batch lists.
	failuresShown = 50
)

// batchRow is a batch with how far it is. Shares are percents of its requests.
type batchRow struct {
	batches.Batch

	Link string
	// State is open, ended or cancelled.
	State                 string
	Done, Failed, Waiting int
	DoneShare, BadShare   float64
	Retried               int
	Used                  float64
	Last                  time.Time
	// Left is how long the rest takes at the rate of the last minute. Zero if that is not known.
	Left time.Duration
}

// listBatches are the newest batches. It requires that mu is held.
func (s *Server) listBatches(ctx context.Context) ([]batchRow, error) {
	if s.config.Batches == nil {
		return nil, nil
	}
	found, err := s.config.Batches.List(ctx, batchesShown)
	if err != nil && !errors.Is(err, batches.ErrMalformed) {
		return nil, err
	}
	faults := []error{err} // of single batches
	counters := make(map[string]*batches.Counter, len(found))
	rows := make([]batchRow, 0, len(found))
	for _, b := range found {
		counters[b.ID] = cmp.Or(s.counters[b.ID], s.config.Batches.Counter(b.ID))
		p, err := counters[b.ID].Progress(ctx)
		if err != nil && !errors.Is(err, batches.ErrMalformed) {
			return nil, err
		}
		if err != nil {
			faults, p = append(faults, err), batches.Progress{Batch: b}
		}
		rows = append(rows, newBatchRow(p))
	}
	s.counters = counters // drops the counters of older batches
	return rows, errors.Join(faults...)
}

func newBatchRow(p batches.Progress) batchRow {
	r := batchRow{
		Batch: p.Batch, Link: "/batch?id=" + url.QueryEscape(p.ID), State: string(p.State), Done: p.Done, Failed: p.Failed,
		Waiting: max(0, p.Requests-p.Done-p.Failed), Retried: p.Retried, Used: p.Used, Last: p.Last,
	}
	if r.State == string(batches.StateOpen) && r.Waiting == 0 {
		r.State = "ended"
	}
	if r.State == string(batches.StateOpen) {
		r.Left, _ = p.Pace(time.Now()).Left(r.Waiting)
	}
	share := func(n int) float64 { return math.Round(1000*float64(n)/float64(max(1, p.Requests))) / 10 }
	r.DoneShare, r.BadShare = share(p.Done), share(p.Failed)
	return r
}

// batchesData is the page of all batches.
type batchesData struct {
	Kept    bool // batches are kept, in MongoDB
	Batches []batchRow
}

func (s *Server) batchesPage(r *http.Request) (view, error) {
	d := batchesData{Kept: s.config.Batches != nil, Batches: s.look(r.Context()).Batches}
	return view{Name: "batches", Title: "Batches", Nav: "/batches", Data: d}, nil
}

// batchData is the page of one batch.
type batchData struct {
	batchRow

	Failures []failedRequest
	More     bool
	// Unread says why there are no further failures.
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
		return view{}, &notFoundError{what: "MONGODB_URI is not set: there are no batches."}
	}
	b, err := s.config.Batches.Batch(r.Context(), r.URL.Query().Get("id"))
	if err != nil {
		return view{}, err
	}
	p, err := s.config.Batches.Counter(b.ID).Progress(r.Context())
	if err != nil {
		return view{}, err
	}
	d := batchData{batchRow: newBatchRow(p)}
	for result, err := range s.config.Batches.FailedOnes(r.Context(), b.ID) {
		if errors.Is(err, batches.ErrMalformed) {
			d.Unread = err.Error()
			break
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
