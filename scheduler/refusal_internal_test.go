package scheduler

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/reservations"
)

func TestRefusedTaskIsTheFirstOfItsLine(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l lines) {
		t.Helper()
		s := &Scheduler{config: Config{}.withDefaults(), lines: l, waker: newWaker(l, asynq.NewInspectorFromRedisClient(l.client), Config{}.withDefaults())}
		s.share()
		c := reservations.Charge{Limit: "openai", Tokens: reservations.Tokens{"tokens": 1}}
		at := time.Now()
		blocked := reservations.Outcome{State: reservations.StateSettled, At: at, Shift: -time.Hour, Generation: 1, Version: 7}
		waits := reservations.Outcome{State: reservations.StateReserved, At: at, Due: at.Add(time.Millisecond), Generation: 1, Version: 6}
		if err := s.Defer(t.Context(), Task{Queue: "q", ID: "b"}, c, waits); !errors.Is(err, ErrDeferred) {
			t.Fatal(err)
		}
		task := Task{Queue: "q", ID: "a"}
		err := s.DeferRefused(t.Context(), task, c, time.Hour, blocked, io.ErrClosedPipe, nil)
		if e, ok := errors.AsType[*DeferredError](err); !ok || !errors.Is(err, io.ErrClosedPipe) || IsFailure(err) || e.Delay != time.Hour || e.unwatched {
			t.Errorf("%+v", err)
		}
		first, err := l.client.ZRange(t.Context(), root+"line:openai@1", 0, -1).Result()
		if err != nil || len(first) != 2 || first[0] != "q/a" {
			t.Errorf("line %v, %v", first, err)
		}
		same(t, "nobody is due before the block ends", []string(nil), mustPop(t, l))
		held, err := s.Recall(t.Context(), task)
		if err != nil || len(held) != 1 {
			t.Fatalf("held %+v, %v", held, err)
		}
		if place := held[0]; place.State != reservations.StateLate || place.Generation != 1 || !place.Due.Equal(at) {
			t.Errorf("place %+v", place)
		}
		counts(t, s, task, 1, 2, 3)
		if err := s.ForgetRefusals(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		counts(t, s, task, 1)
	})
}

// counts refuses the task again and again.
func counts(t *testing.T, s *Scheduler, task Task, want ...int) {
	t.Helper()
	for _, n := range want {
		if got, err := s.Refused(t.Context(), task, time.Second); err != nil || got != n {
			t.Fatalf("refused %d times, want %d, %v", got, n, err)
		}
		if kept := s.lines.client.PTTL(t.Context(), refusalsKey(task)).Val(); kept <= 0 || kept > time.Second+refusalsKept {
			t.Errorf("kept for %v", kept)
		}
	}
}

func TestTextOfRefusals(t *testing.T) {
	t.Parallel()
	until := time.Date(2026, 11, 21, 10, 0, 5, 0, time.UTC)
	refusal, cause := errors.New("429"), errors.New("no answer")
	const when = "until 2026-11-21T10:00:05.000Z, 5s from 2026-11-21T10:00:00.000Z"
	for _, c := range []struct {
		e    DeferredError
		want string
	}{
		{DeferredError{Bucket: "openai", State: "late", Refusal: refusal}, "waiting for limit openai (late), refused by the provider: " + when + ": 429"},
		{DeferredError{Refusal: refusal}, "waiting, refused by the provider: " + when + ": 429"},
		{DeferredError{Bucket: "openai", State: "late", Refusal: refusal, Cause: cause}, "waiting for limit openai (late), refused by the provider: " + when + ": 429 (the bucket could not be asked: no answer)"},
	} {
		c.e.Until, c.e.Delay = until, 5*time.Second
		if got := c.e.Error(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}
