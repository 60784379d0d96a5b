package roundtrip

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

const gather = 500 * time.Microsecond

// Those who ask within a moment share a call, those who ask during a call share the next; each gets its own answer.
func TestThoseWhoAskTogetherShareACall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls []int
		shared := Together[int, string]{Gather: gather, Call: func(_ context.Context, asked []int) ([]string, error) {
			calls = append(calls, len(asked))
			<-time.After(10 * time.Millisecond)
			answers := make([]string, len(asked))
			for i, n := range asked {
				answers[i] = strconv.Itoa(n)
			}
			return answers, nil
		}}
		var askers sync.WaitGroup
		ask := func(from, to int) {
			for n := from; n < to; n++ {
				askers.Go(func() {
					if got, err := shared.Ask(t.Context(), n); err != nil || got != strconv.Itoa(n) {
						t.Errorf("%d: %q, %v", n, got, err)
					}
				})
			}
		}
		ask(0, 3)
		<-time.After(gather + time.Millisecond)
		ask(3, 3+togetherMost+5)
		askers.Wait()
		synctest.Wait()
		if diff := cmp.Diff([]int{3, togetherMost, 5}, calls); diff != "" {
			t.Error(diff)
		}
		ask(0, 1) // a new service after the end of the first
		askers.Wait()
	})
}

func TestASharedErrorIsEverybodys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fault := errors.New("away")
		shared := Together[int, int]{Gather: gather, Call: func(ctx context.Context, _ []int) ([]int, error) {
			if ctx.Err() != nil {
				t.Error("the call ended with one of its callers")
			}
			return nil, fault
		}}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := shared.Ask(gone, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("who has gone got %v", err)
		}
		if _, err := shared.Ask(t.Context(), 2); !errors.Is(err, fault) {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
	})
}
