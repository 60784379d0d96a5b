package dashboard

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/url"
	"time"

	"github.com/headway-go/headway/internal/batches"
	"github.com/headway-go/headway/internal/batchref"
	"github.com/headway-go/headway/internal/pace"
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

// followed is a batch that the list shows repeatedly.
type followed struct {
	counter *batches.Counter
	samples []pace.Sample
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
	counters := make(map[string]*followed, len(found))
	rows := make([]batchRow, 0, len(found))
	for _, b := range found {
		f := s.counters[b.ID]
		if f == nil {
			f = &followed{counter: s.config.Batches.Counter(b.ID)}
		}
		counters[b.ID] = f
		counts, now, err := f.counter.Counts(ctx)
		if err != nil && !errors.Is(err, batches.ErrMalformed) {
			return nil, err
		}
		if err != nil {
			faults, now, counts = append(faults, err), b, batches.Counts{}
		}
		var lately pace.Lately
		f.samples, lately = pace.Watched(f.samples, pace.Sample{At: time.Now(), Counts: counts})
		rows = append(rows, newBatchRow(now, counts, lately))
	}
	s.counters = counters // drops the counters of older batches
	return rows, errors.Join(faults...)
}

func newBatchRow(b batches.Batch, c batches.Counts, lately pace.Lately) batchRow {
	r := batchRow{
		Batch: b, Link: "/batch?id=" + url.QueryEscape(b.ID), State: string(b.State), Done: c.Done, Failed: c.Failed,
		Waiting: max(0, b.Requests-c.Done-c.Failed), Retried: c.Retried, Used: c.Usage.Used, Last: c.Last,
	}
	if r.State == string(batches.StateOpen) && r.Waiting == 0 {
		r.State = "ended"
	}
	if r.State == string(batches.StateOpen) {
		r.Left, _ = lately.Left(r.Waiting)
	}
	share := func(n int) float64 { return math.Round(1000*float64(n)/float64(max(1, b.Requests))) / 10 }
	r.DoneShare, r.BadShare = share(c.Done), share(c.Failed)
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
	counts, err := s.config.Batches.Counts(r.Context(), b.ID)
	if err != nil {
		return view{}, err
	}
	lately, err := pace.Read(r.Context(), s.config.Batches, b.ID, counts, time.Now())
	if err != nil {
		return view{}, err
	}
	d := batchData{batchRow: newBatchRow(b, counts, lately)}
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
