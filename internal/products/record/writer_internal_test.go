package record

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/internal/documents/batches"
)

// Results that arrive during a round trip share the next one, up to 8 MB. Each handler receives the error of its own
// result.
func TestHandlersShareRoundTrips(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("refused")
		var trips [][]int
		w := newWriter(func(ctx context.Context, results []batches.Result) []error {
			if deadline, _ := ctx.Deadline(); time.Until(deadline) != writeTimeout {
				t.Errorf("the round trip ends at %v", deadline)
			}
			<-time.After(time.Second)
			var lines []int
			outcomes := make([]error, len(results))
			for i, r := range results {
				if lines = append(lines, r.Line); r.Line%2 > 0 {
					outcomes[i] = fmt.Errorf("line %d: %w", r.Line, refused)
				}
			}
			trips = append(trips, lines)
			return outcomes
		})
		part := make([]byte, writeBytes/8)
		large := make([]byte, writeBytes+1)
		results := slices.Repeat([]batches.Result{{Request: part, Response: &batches.Response{Body: part}}}, 8)
		results[6] = batches.Result{Request: large}
		var handlers sync.WaitGroup
		for line, r := range results {
			r.Line = line
			handlers.Go(func() {
				stored, err := w.Do(t.Context(), struct{}{}, r)
				err = errors.Join(append(stored, err)...)
				if want := fmt.Sprintf("line %d: refused", line); line%2 == 0 && err != nil || line%2 > 0 &&
					err.Error() != want {
					t.Errorf("line %d: %v", line, err)
				}
			})
			synctest.Wait()
		}
		handlers.Wait()
		w.Close()
		if diff := cmp.Diff([][]int{{0}, {1, 2, 3, 4}, {5}, {6}, {7}}, trips); diff != "" {
			t.Errorf("round trips (-want +got):\n%s", diff)
		}
	})
}
