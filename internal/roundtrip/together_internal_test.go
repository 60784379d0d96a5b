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

// Who has gone before the call is not asked for: asynq sends what ended a task again and again with a context that has ended, and by then another delivery may
// be running.
func TestWhoHasGoneIsNotAskedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked []int
		release := make(chan struct{})
		shared := Together[int, int]{Call: func(_ context.Context, all []int) ([]int, error) {
			asked = append(asked, all...)
			<-release
			return all, nil
		}}
		ended, cancel := context.WithDeadline(t.Context(), time.Now().Add(time.Hour))
		cancel()
		if _, err := shared.Ask(ended, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("who had gone got %v", err)
		}
		var askers sync.WaitGroup
		ask := func(ctx context.Context, n int, want error) {
			askers.Go(func() {
				if _, err := shared.Ask(ctx, n); !errors.Is(err, want) {
					t.Errorf("%d: %v, want %v", n, err, want)
				}
			})
			synctest.Wait()
		}
		leaves, leave := context.WithCancel(t.Context())
		ask(t.Context(), 2, nil)
		ask(leaves, 3, context.Canceled) // waits behind the call
		ask(t.Context(), 4, nil)
		ask(leaves, 5, context.Canceled)
		leave()
		close(release)
		askers.Wait()
		synctest.Wait()
		if diff := cmp.Diff([]int{2, 4}, asked); diff != "" {
			t.Errorf("asked (-want +got):\n%s", diff)
		}
	})
}

// Where Enough is set a call waits for others only while many ask, and until enough wait.
func TestACrowdGathers(t *testing.T) {
	t.Parallel()
	const wait, every = time.Millisecond, 200 * time.Microsecond
	for name, c := range map[string]struct {
		pauses []time.Duration // before each of those who ask
		want   []int           // who share a call
	}{
		"few":               {[]time.Duration{0, time.Second, time.Second, time.Second, time.Second}, []int{1, 1, 1, 1, 1}},
		"not within a wait": {[]time.Duration{0, wait, wait, wait, wait, wait}, []int{1, 1, 1, 1, 1, 1}},
		"until the wait is over": {
			[]time.Duration{0, every, every, every, every, time.Second, time.Second}, []int{1, 1, 1, 2, 1, 1},
		},
		"until there are enough": {
			[]time.Duration{0, every, every, every, every, every, every, every, time.Second}, []int{1, 1, 1, 5, 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var calls []int
				var last time.Time
				shared := Together[int, int]{Gather: wait, Enough: 5, Call: func(_ context.Context, asked []int) ([]int, error) {
					calls, last = append(calls, len(asked)), time.Now()
					return asked, nil
				}}
				var askers sync.WaitGroup
				for n, pause := range c.pauses {
					<-time.After(pause)
					synctest.Wait()
					asked := time.Now()
					askers.Go(func() {
						if got, err := shared.Ask(t.Context(), n); err != nil || got != n || last.Sub(asked) > wait {
							t.Errorf("%d: %d, %v, after %v", n, got, err, last.Sub(asked))
						}
					})
					synctest.Wait()
				}
				askers.Wait()
				synctest.Wait()
				if diff := cmp.Diff(c.want, calls); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}
