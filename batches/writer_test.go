package batches_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/headway-go/headway/batches"
)

// slowStore takes its time for a round trip, and keeps what it was given.
type slowStore struct {
	took time.Duration

	mu     sync.Mutex
	trips  [][]batches.Result
	seen   map[int]bool
	inside int
	most   int
}

func (s *slowStore) FinishMany(ctx context.Context, results []batches.Result) []batches.Outcome {
	s.mu.Lock()
	s.inside++
	s.most = max(s.most, s.inside)
	s.mu.Unlock()
	var err error
	select {
	case <-time.After(s.took):
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inside--
	s.trips = append(s.trips, results)
	outcomes := make([]batches.Outcome, len(results))
	for i, r := range results {
		if s.seen == nil {
			s.seen = map[int]bool{}
		}
		outcomes[i] = batches.Outcome{First: err == nil && !s.seen[r.Line], Err: err}
		s.seen[r.Line] = true
	}
	return outcomes
}

// A lone caller waits for nobody.
func TestWriterAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slowStore{took: time.Second}
		w := batches.NewWriter(s, batches.WriterOptions{})
		for n := range 3 {
			began := time.Now()
			if first, err := w.Finish(t.Context(), batches.Result{Line: n}); !first || err != nil || time.Since(began) != time.Second {
				t.Error(first, err, time.Since(began))
			}
		}
		if err := w.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := w.Finish(t.Context(), batches.Result{Line: 9}); !errors.Is(err, batches.ErrClosed) {
			t.Error(err)
		}
		if err := w.Close(t.Context()); err != nil || len(s.trips) != 3 {
			t.Error(err, len(s.trips))
		}
	})
}

// Those who come while a round trip is under way share the next one, as far as count and bytes allow.
func TestWriterShares(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o    batches.WriterOptions
		want string
	}{
		"all":         {batches.WriterOptions{}, "[1 20]"},
		"by count":    {batches.WriterOptions{Count: 8}, "[1 8 8 4]"},
		"by bytes":    {batches.WriterOptions{Bytes: 700}, "[1 7 7 6]"},
		"a large one": {batches.WriterOptions{Bytes: 1}, "[1" + strings.Repeat(" 1", 20) + "]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &slowStore{took: time.Second}
				w := batches.NewWriter(s, c.o)
				for line := range 21 {
					go func() {
						r := batches.Result{Line: line, Request: make([]byte, 50), Response: &batches.Response{Body: make([]byte, 50)}}
						if first, err := w.Finish(t.Context(), r); !first || err != nil {
							t.Error(first, err)
						}
					}()
					synctest.Wait()
				}
				if err := w.Close(t.Context()); err != nil {
					t.Error(err)
				}
				sizes := []int{}
				next := 0
				for _, trip := range s.trips {
					sizes = append(sizes, len(trip))
					for _, r := range trip {
						if r.Line != next {
							t.Errorf("line %d where %d is next", r.Line, next)
						}
						next++
					}
				}
				if got := fmt.Sprint(sizes); got != c.want || s.most != 1 {
					t.Errorf("round trips of %s, want %s; %d at once", got, c.want, s.most)
				}
			})
		})
	}
}

// Whatever comes when, and whoever goes away: everybody is answered, a line has one first, and what was answered without an
// error was stored.
func TestWriterModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		type call struct {
			After, Patience time.Duration
			Line            int
			Endless         bool // patience
		}
		calls := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) call {
			return call{
				After:    time.Duration(rapid.IntRange(0, 5000).Draw(t, "after")) * time.Millisecond,
				Patience: time.Duration(rapid.IntRange(1, 9000).Draw(t, "patience"))*time.Millisecond + 1,
				Line:     rapid.IntRange(1, 20).Draw(t, "line"),
				Endless:  rapid.Bool().Draw(t, "endless"),
			}
		}), 1, 60).Draw(rt, "calls")
		count := rapid.IntRange(1, 10).Draw(rt, "count")
		took := time.Duration(rapid.IntRange(1, 3000).Draw(rt, "took")) * time.Millisecond
		synctest.Test(t, func(t *testing.T) {
			s := &slowStore{took: took}
			w := batches.NewWriter(s, batches.WriterOptions{Count: count})
			var mu sync.Mutex
			firsts, stored, gone := map[int]int{}, map[int]bool{}, map[int]bool{}
			var group sync.WaitGroup
			for _, c := range calls {
				group.Go(func() {
					<-time.After(c.After)
					ctx, cancel := context.WithTimeout(context.Background(), c.Patience)
					defer cancel()
					if c.Endless {
						ctx = context.Background()
					}
					first, err := w.Finish(ctx, batches.Result{Line: c.Line})
					mu.Lock()
					defer mu.Unlock()
					if first {
						firsts[c.Line]++
					}
					if err == nil {
						stored[c.Line] = true
					} else if errors.Is(err, context.DeadlineExceeded) && !c.Endless {
						gone[c.Line] = true
					} else {
						t.Error(err)
					}
				})
			}
			group.Wait()
			if err := w.Close(t.Context()); err != nil {
				t.Error(err)
			}
			for line := range stored {
				if !s.seen[line] || firsts[line] > 1 || firsts[line] == 0 && !gone[line] {
					t.Errorf("line %d: stored %v, %d firsts", line, s.seen[line], firsts[line])
				}
			}
			for _, trip := range s.trips {
				if len(trip) > count || len(trip) == 0 {
					t.Errorf("a round trip of %d", len(trip))
				}
			}
			if s.most > 1 {
				t.Errorf("%d round trips at once", s.most)
			}
		})
	})
}

// Close waits for what was given, and says so when it can't.
func TestWriterClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slowStore{took: time.Hour}
		w := batches.NewWriter(s, batches.WriterOptions{Timeout: time.Minute})
		answer := make(chan error)
		go func() {
			_, err := w.Finish(t.Context(), batches.Result{Line: 1})
			answer <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if err := <-answer; !errors.Is(err, context.DeadlineExceeded) { // the round trip's own
			t.Error(err)
		}
		if err := w.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
