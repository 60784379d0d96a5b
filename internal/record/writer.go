package record

import (
	"context"
	"time"

	"github.com/headway-go/headway/batches"
	"github.com/headway-go/headway/internal/coalesce"
)

const (
	// writeBytes bounds the bodies and requests in one round trip, before compression. One larger result goes alone.
	writeBytes   = 8_000_000
	writeTimeout = 30 * time.Second
)

// writer lets handlers that end at the same moment share a round trip to the database.
type writer struct {
	group coalesce.Group[struct{}, batches.Result, batches.Outcome]
}

// newWriter returns a writer of results. The function is that of batches.Store.
func newWriter(finishMany func(context.Context, []batches.Result) []batches.Outcome) *writer {
	w := &writer{}
	w.group.Size, w.group.MaxSize, w.group.Timeout = sizeOf, writeBytes, writeTimeout
	w.group.Call = func(ctx context.Context, _ struct{}, results []batches.Result) ([]batches.Outcome, error) {
		return finishMany(ctx, results), nil
	}
	return w
}

func sizeOf(r batches.Result) int {
	if r.Response == nil {
		return len(r.Request)
	}
	return len(r.Request) + len(r.Response.Body)
}

// finish stores one result. When ctx ends during the round trip, the result may be stored nevertheless.
func (w *writer) finish(ctx context.Context, r batches.Result) error {
	outcomes, err := w.group.Do(ctx, struct{}{}, r)
	if err != nil {
		return err
	}
	return outcomes[0].Err
}
