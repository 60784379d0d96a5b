package scheduler

import (
	"testing"
	"time"

	"github.com/headway-go/headway/reservations"
)

// What a version kept that knew of one charge a task.
func TestRecallReadsPlacesOfOneBucket(t *testing.T) {
	t.Parallel()
	l, server := onMini(t)
	s := &Scheduler{lines: l}
	s.share()
	server.HSet(root+"place:q/a", "line", "openai:k@5", "place",
		`{"state":"reserved","due":"2026-11-21T10:00:00.5Z","gen":5,"bucket":"openai:k","tokens":{"n":1},"since":"2026-11-21T09:59:00Z"}`)
	held, err := s.Recall(t.Context(), Task{"q", "a"})
	if err != nil || len(held) != 1 {
		t.Fatalf("held %+v, %v", held, err)
	}
	due := time.Date(2026, 11, 21, 10, 0, 0, 500e6, time.UTC)
	same(t, "held", Held{Place: reservations.Place{State: reservations.StateReserved, Due: due, Generation: 5}, Bucket: "openai:k"}, held[0])
	again, err := s.Recall(t.Context(), Task{"q", "a"})
	if err != nil || again != nil {
		t.Errorf("the second time it is %+v, %v", again, err)
	}
}

func TestAfterALongerBlock(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	blocked := reservations.Outcome{State: reservations.StateSettled, At: at, Shift: -time.Hour}
	same(t, "back when it ends", 5*time.Second, AfterBlock(blocked, 5*time.Second).Wait())
	blocked.Due = at.Add(time.Minute + blocked.Shift)
	same(t, "back when the longer one ends", time.Minute, AfterBlock(blocked, 5*time.Second).Wait())
	blocked.Due, blocked.Speed = time.Time{}, 2
	same(t, "back when it ends, by a clock that runs twice as fast", 5*time.Second, AfterBlock(blocked, 5*time.Second).Wait())
	same(t, "as", reservations.StateLate, AfterBlock(blocked, 5*time.Second).State)
}
