package coalesce_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/internal/calls/coalesce"
)

// bundle is a group whose calls record their requests and wait for the gate. It lives in a synctest bubble.
type bundle struct {
	coalesce.Group[string, int, int]

	t     *testing.T
	gate  chan error // receives one error, or nil, for each call
	wg    sync.WaitGroup
	mu    sync.Mutex // guards calls
	calls [][]int
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{t: t, gate: make(chan error)}
	b.Timeout = time.Hour
	b.Call = func(ctx context.Context, _ string, requests []int) ([]int, error) {
		b.mu.Lock()
		b.calls = append(b.calls, requests)
		b.mu.Unlock()
		select {
		case err := <-b.gate:
			return twice(requests), err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return b
}

func twice(requests []int) []int {
	answers := make([]int, len(requests))
	for i, n := range requests {
		answers[i] = 2 * n
	}
	return answers
}

// do starts a Do whose error must match want, and returns when it waits.
func (b *bundle) do(ctx context.Context, key string, want error, requests ...int) {
	b.wg.Go(func() {
		answers, err := b.Do(ctx, key, requests...)
		if !errors.Is(err, want) {
			b.t.Errorf("%v: error %v, want %v", requests, err, want)
		}
		if err == nil && !slices.Equal(answers, twice(requests)) {
			b.t.Errorf("%v: answers %v", requests, answers)
		}
	})
	synctest.Wait()
}

// open answers n calls.
func (b *bundle) open(n int) {
	for range n {
		b.gate <- nil
		synctest.Wait()
	}
}

func (b *bundle) wantCalls(want ...[]int) {
	b.t.Helper()
	b.wg.Wait()
	b.Close()
	if diff := cmp.Diff(want, b.calls); diff != "" {
		b.t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestCallersShareTheNextCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		b.do(t.Context(), "", nil, 1)
		b.do(t.Context(), "", nil, 2)
		b.do(t.Context(), "", nil, 3, 4)
		b.do(t.Context(), "", nil)
		b.open(1)
		b.do(t.Context(), "", nil, 5)
		b.open(2)
		b.do(t.Context(), "", nil, 6) // the key was idle
		b.open(1)
		b.wantCalls([]int{1}, []int{2, 3, 4}, []int{5}, []int{6})
	})
}

func TestKeysDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		b.do(t.Context(), "a", nil, 1)
		b.do(t.Context(), "b", nil, 2)
		b.open(2)
		b.wantCalls([]int{1}, []int{2})
	})
}

// The first call for an idle key waits for Gather, or for Max callers.
func TestFirstCallGathers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		b.Gather, b.Max = time.Second, 3
		b.do(t.Context(), "", nil, 1)
		after(time.Second - 1)
		b.do(t.Context(), "", nil, 2)
		after(1)
		b.do(t.Context(), "", nil, 3) // after the call
		b.open(1)
		after(gatherMost) // the wait for a second caller
		b.open(1)
		began := time.Now()
		b.do(t.Context(), "", nil, 4)
		b.do(t.Context(), "", nil, 5)
		b.do(t.Context(), "", nil, 6)
		b.open(1)
		if waited := time.Since(began); waited != 0 {
			t.Errorf("a full call waited %v", waited)
		}
		b.wantCalls([]int{1, 2}, []int{3}, []int{4, 5, 6})
	})
}

const gatherMost = 5 * time.Millisecond

// After a shared call, the next one waits for as many callers, at most for the duration of that call and for 5 ms.
func TestCallsAfterASharedCallGather(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		b.do(t.Context(), "", nil, 1)
		b.do(t.Context(), "", nil, 2)
		b.do(t.Context(), "", nil, 3)
		b.open(1)
		after(3 * time.Millisecond)
		b.open(1) // 2 and 3, in 3 ms
		after(3*time.Millisecond - 1)
		b.do(t.Context(), "", nil, 4)
		b.do(t.Context(), "", nil, 5) // as many: no more wait
		after(time.Second)
		b.open(1) // 4 and 5, in 1 s
		after(gatherMost - 1)
		b.do(t.Context(), "", nil, 6)
		after(1)
		b.do(t.Context(), "", nil, 7) // after the wait
		b.open(2)
		b.wantCalls([]int{1}, []int{2, 3}, []int{4, 5}, []int{6}, []int{7})
	})
}

// A full call, a request that is not the same, and a sum of sizes that is too large end a call. The order is kept.
func TestCallsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		b.Max = 4
		b.Same = func(x, y int) bool { return x < 100 == (y < 100) }
		b.Size, b.MaxSize = func(n int) int { return n % 100 }, 30
		b.do(t.Context(), "", nil, 1)
		for _, requests := range [][]int{
			{1}, {1}, {1}, {1}, {2, 2}, {2, 2, 2}, {101}, {3}, {4, 26}, {5, 25}, {40}, {6, 6, 6, 6, 6}, {7},
		} {
			b.do(t.Context(), "", nil, requests...)
		}
		for range 11 {
			after(gatherMost)
			b.open(1)
		}
		b.wantCalls([]int{1}, []int{1, 1, 1, 1}, []int{2, 2}, []int{2, 2, 2}, []int{101}, []int{3},
			[]int{4, 26}, []int{5, 25}, []int{40}, []int{6, 6, 6, 6, 6}, []int{7})
	})
}

func TestMaxDefault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		b.do(t.Context(), "", nil, 0)
		for n := range coalesce.MaxDefault + 2 {
			b.do(t.Context(), "", nil, n)
		}
		b.open(2)
		after(gatherMost)
		b.open(1)
		b.wg.Wait()
		b.Close()
		if len(b.calls) != 3 || len(b.calls[1]) != coalesce.MaxDefault || len(b.calls[2]) != 2 {
			t.Errorf("%d calls: %v", len(b.calls), b.calls)
		}
	})
}
