package roundtrip

import (
	"context"
	"sync"
	"time"

	"github.com/headway-go/headway/internal/coalesce"
)

// Together is a [coalesce.Group] with one key and one request for each caller. Set its fields before the first use. It
// is safe for concurrent use.
type Together[Q, A any] struct {
	// Call sends all requests, and returns their answers in the same order.
	Call func(context.Context, []Q) ([]A, error)
	// Gather is how long the first call of an idle Together waits for other callers. Zero means not at all.
	Gather time.Duration

	once  sync.Once
	group coalesce.Group[struct{}, Q, A]
}

// Ask returns the answer to q. When ctx ends before the call, q is not sent.
func (t *Together[Q, A]) Ask(ctx context.Context, q Q) (answer A, err error) {
	t.once.Do(func() {
		t.group.Gather = t.Gather
		t.group.Call = func(ctx context.Context, _ struct{}, all []Q) ([]A, error) { return t.Call(ctx, all) }
	})
	answers, err := t.group.Do(ctx, struct{}{}, q)
	if err != nil {
		return answer, err
	}
	return answers[0], nil
}
