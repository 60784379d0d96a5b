package dashboard

import (
	"context"
	"net/http"
	"net/url"

	"github.com/headway-go/headway/internal/documents/batches"
)

// BatchChanges cancels batches and sends their failed requests again, as the commands do.
type BatchChanges interface {
	// Cancel deletes the waiting requests of a batch, and returns how many.
	Cancel(ctx context.Context, b batches.Batch) (deleted int, err error)
	// Retry enqueues the failed requests of a batch again, and returns how many.
	Retry(ctx context.Context, b batches.Batch) (sent int, err error)
}

// batchActions cancel a batch, or send its failed requests again.
func (s *Server) batchActions(b batchRow) (all []action) {
	if s.config.Change == nil {
		return nil
	}
	sends := [][2]string{{"batch", b.ID}}
	if b.Progress.State == batches.StateOpen && b.Waiting > 0 {
		all = append(all, action{
			Path: "cancel", Name: "Cancel", Of: "batch " + b.Name, Sends: sends,
			Says: "Requests that wait are deleted, and what they have reserved goes to others. Requests that run come to " +
				"their end. To go on, enqueue the file again.",
		})
	}
	if b.Progress.State == batches.StateOpen && b.Failed > 0 {
		all = append(all, action{
			Path: "retry", Name: "Retry " + count(b.Failed, "failure"), Of: "of batch " + b.Name, Sends: sends,
			Says: "The failed requests are sent again, to the same limits and queue. Their new results replace the old ones.",
		})
	}
	return s.offer(all...)
}

func (s *Server) cancelBatch(r *http.Request) (string, error) {
	return s.changeBatch(r, "cancelled", func(ctx context.Context, b batches.Batch) (int, error) {
		return s.config.Change.Cancel(ctx, b)
	})
}

func (s *Server) retryBatch(r *http.Request) (string, error) {
	return s.changeBatch(r, "retried", func(ctx context.Context, b batches.Batch) (int, error) {
		return s.config.Change.Retry(ctx, b)
	})
}

// changeBatch changes the batch that a form names. The change goes on if the browser goes away.
func (s *Server) changeBatch(
	r *http.Request, done string, change func(context.Context, batches.Batch) (int, error),
) (string, error) {
	if s.config.Change == nil || s.config.Batches == nil {
		return "", &notFoundError{what: "This page can't change batches."}
	}
	ctx := context.WithoutCancel(r.Context())
	b, err := s.config.Batches.Batch(ctx, r.PostFormValue("batch"))
	if err != nil {
		return "", err
	}
	n, err := change(ctx, b)
	return back("batch?id="+url.QueryEscape(b.ID), done, n), err
}
