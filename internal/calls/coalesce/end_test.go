package coalesce_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/internal/calls/coalesce"
)

// The requests of a caller whose context ends before the call are not sent.
func TestCallerLeavesBeforeTheCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		ctx, cancel := context.WithCancel(t.Context())
		b.do(t.Context(), "", nil, 1)
		b.do(ctx, "", context.Canceled, 2)
		b.do(t.Context(), "", nil, 3)
		b.do(ctx, "", context.Canceled, 4)
		cancel()
		b.do(ctx, "", context.Canceled, 5)
		b.open(2)
		b.do(t.Context(), "", nil, 6)
		alone, leave := context.WithCancel(t.Context())
		b.do(alone, "", context.Canceled, 7)
		leave()
		b.open(1)
		b.do(t.Context(), "", nil, 8)
		b.open(1)
		b.wantCalls([]int{1}, []int{3}, []int{6}, []int{8})
	})
}

// The end of one caller's context does not end a call.
func TestCallerLeavesDuringTheCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		ctx, cancel := context.WithCancel(t.Context())
		b.do(t.Context(), "", nil, 1)
		b.do(ctx, "", context.Canceled, 2)
		b.do(t.Context(), "", nil, 3)
		b.open(1)
		cancel()
		synctest.Wait()
		b.open(1)
		b.wantCalls([]int{1}, []int{2, 3})
	})
}

// An error belongs to every caller of its call, and to no other.
func TestErrorOfACall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		fault := errors.New("away")
		b.do(t.Context(), "", fault, 1)
		b.do(t.Context(), "", context.DeadlineExceeded, 2)
		b.do(t.Context(), "", context.DeadlineExceeded, 3)
		b.gate <- fault
		after(b.Timeout)
		after(gatherMost)
		b.do(t.Context(), "", nil, 4)
		b.open(1)
		b.wantCalls([]int{1}, []int{2, 3}, []int{4})
	})
}

func TestPanicOfACall(t *testing.T) {
	t.Parallel()
	var group coalesce.Group[int, int, int]
	group.Call = func(_ context.Context, _ int, requests []int) ([]int, error) {
		if requests[0] == 1 {
			panic("out of order")
		}
		return requests, nil
	}
	_, err := group.Do(t.Context(), 0, 1)
	if err == nil || !strings.Contains(err.Error(), "panicked: out of order") {
		t.Errorf("%v", err)
	}
	if answers, err := group.Do(t.Context(), 0, 2); err != nil || answers[0] != 2 {
		t.Errorf("%v, %v", answers, err)
	}
	group.Close()
}

func TestMissingAnswers(t *testing.T) {
	t.Parallel()
	group := coalesce.Group[int, int, int]{
		Call: func(_ context.Context, _ int, requests []int) ([]int, error) { return requests[1:], nil },
	}
	answers, err := group.Do(t.Context(), 0, 1, 2)
	if err == nil || !strings.Contains(err.Error(), "1 answers to 2 requests") {
		t.Errorf("%v, %v", answers, err)
	}
	group.Close()
}

type tracing struct{}

// A call has the values of the first caller's context, and a deadline of its own.
func TestContextOfACall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		group := coalesce.Group[int, int, time.Time]{Call: func(ctx context.Context, _ int, _ []int) ([]time.Time, error) {
			deadline, _ := ctx.Deadline()
			if ctx.Value(tracing{}) != "trace" {
				t.Error("the values are lost")
			}
			return []time.Time{deadline}, nil
		}}
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), tracing{}, "trace"), time.Second)
		defer cancel()
		want := time.Now().Add(coalesce.TimeoutDefault)
		if got, err := group.Do(ctx, 0, 1); err != nil || !got[0].Equal(want) {
			t.Errorf("deadline %v, %v, want %v", got, err, want)
		}
		group.Close()
	})
}

// Close sends earlier requests without gathering, waits for their answers, and refuses later requests.
func TestClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		b.Gather = time.Hour
		began := time.Now()
		b.do(t.Context(), "", nil, 1)
		closed := make(chan struct{})
		go func() {
			b.Close()
			close(closed)
		}()
		synctest.Wait()
		b.do(t.Context(), "", coalesce.ErrClosed, 2)
		select {
		case <-closed:
			t.Error("Close did not wait for the call")
		default:
		}
		b.open(1)
		<-closed
		if waited := time.Since(began); waited != 0 {
			t.Errorf("Close waited %v for other callers", waited)
		}
		b.wantCalls([]int{1})
	})
}
