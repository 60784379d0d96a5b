package scheduler_test

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
)

// Tasks that wait for hours are woken, in their order, when their limit is raised so far that hours pass in a moment.
func TestARaisedLimitWakesThoseWhoWait(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		s := newScheduler(t, client, limiter(t, store(), perSecond(1./3600, 1)), exact())
		woken := make(chan scheduler.Task, 10)
		s.Observe(func(tasks []scheduler.Task, _ int, _ error) {
			for _, task := range tasks {
				woken <- task
			}
		})
		for _, id := range []string{"now", "a", "b", "c"} {
			if _, err := s.Enqueue(t.Context(), openai(id), scheduler.Reserved(), scheduler.ID(id)); err != nil {
				t.Fatal(err)
			}
		}
		start(t, s)
		got := []string{receive(t, woken).ID}
		lines, _, err := s.Lines(t.Context(), "openai", 1)
		if err != nil || len(lines) != 1 || lines[0].Waiting != 3 {
			t.Fatalf("%+v, %v", lines, err)
		}
		s.Moved("openai", reservations.Outcome{At: time.Now(), Speed: 36000, Generation: lines[0].Generation, Version: 1000})
		for range 3 {
			got = append(got, receive(t, woken).ID)
		}
		if want := []string{"now", "a", "b", "c"}; !slices.Equal(got, want) {
			t.Errorf("woken: %q, want %q", got, want)
		}
	})
}

// A start tells of the clock of its line only where that is news: what others are told of is not sent again and again.
func TestAStartTellsOfAnotherClock(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		s := newScheduler(t, client, limiter(t, store(), perSecond(1./3600, 1)), exact())
		woken, moves := make(chan scheduler.Task, 10), make(chan int, 1000)
		s.Observe(func(tasks []scheduler.Task, moved int, _ error) {
			moves <- moved
			for _, task := range tasks {
				woken <- task
			}
		})
		for _, id := range []string{"now", "a", "b"} {
			if _, err := s.Enqueue(t.Context(), openai(id), scheduler.Reserved(), scheduler.ID(id)); err != nil {
				t.Fatal(err)
			}
		}
		lines, _, err := s.Lines(t.Context(), "openai", 1)
		if err != nil || len(lines) != 1 {
			t.Fatalf("%+v, %v", lines, err)
		}
		now := time.Now()
		hear := func(version int64, speed float64, after time.Duration) {
			s.Heard("openai", reservations.Outcome{
				At: now.Add(after), Speed: speed, Shift: time.Duration(float64(after) * (speed - 1)), Generation: lines[0].Generation, Version: version,
			})
		}
		hear(1000, 1, 0)                          // the first says nothing
		hear(1001, 1, time.Second)                // the same clock
		hear(1000, 36000, 0)                      // out of date
		s.Heard("openai", reservations.Outcome{}) // no answer
		start(t, s)
		if first := receive(t, woken); first.ID != "now" {
			t.Errorf("woken: %v", first)
		}
		for len(moves) > 0 {
			if n := <-moves; n != 0 {
				t.Errorf("%d lines moved", n)
			}
		}
		hear(1002, 36000, 0)
		for _, want := range []string{"a", "b"} {
			if got := receive(t, woken); got.ID != want {
				t.Errorf("woken: %v, want %s", got, want)
			}
		}
	})
}
