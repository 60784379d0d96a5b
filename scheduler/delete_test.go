package scheduler_test

import (
	"bytes"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
)

// The tasks behind a withdrawn task get its reservation. A missing or ended task can't be withdrawn.
func TestWithdrawGivesBack(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		l := limiter(t, memstore.New(), perSecond(1./3600, 1))
		s := newScheduler(t, client, l, exact())
		many := make([]tasks.Args, 10)
		for i := range many {
			c := openai(strconv.Itoa(i))
			c.Fixed.ID = c.Name
			many[i] = c
		}
		if _, err := s.EnqueueMany(t.Context(), many); err != nil {
			t.Fatal(err)
		}
		before := plan(t, l)
		for i := range 5 {
			got, err := s.Delete(t.Context(), "default", strconv.Itoa(i))
			if err != nil || got[0] == nil || len(got[0].Payload()) == 0 {
				t.Fatalf("task %d: %+v, %v", i, got, err)
			}
		}
		if after := plan(t, l); before < 8.5 || after > 5 || after < 3 {
			t.Errorf("the plan went from %v to %v", before, after)
		}
		inspector := asynq.NewInspectorFromRedisClient(client)
		if err := inspector.ArchiveTask("default", "7"); err != nil {
			t.Fatal(err)
		}
		got, err := s.Delete(t.Context(), "default", "0", "7", "unknown")
		if err != nil || !slices.Equal(got, make([]*asynq.Task, 3)) {
			t.Errorf("%+v, %v", got, err)
		}
		if info, err := inspector.GetQueueInfo("default"); err != nil || info.Size != 5 || info.Archived != 1 {
			t.Errorf("%+v, %v", info, err)
		}
		if got, err := s.Delete(t.Context(), "none", "1"); err != nil || got[0] != nil {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// Many reservations that can't be released cause one warning.
func TestWithdrawWarnsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := inMemory(t)
		l := limiter(t, memstore.New(), perSecond(1, 1))
		many := make([]tasks.Args, 5)
		for i := range many {
			c := openai(strconv.Itoa(i))
			c.Fixed.ID = c.Name
			many[i] = c
		}
		if _, err := newScheduler(t, client, l, scheduler.Config{}).EnqueueMany(t.Context(), many); err != nil {
			t.Fatal(err)
		}
		other := perSecond(1, 1)
		other.Name = "other"
		var log bytes.Buffer
		s := newScheduler(t, client, limiter(t, memstore.New(), other), scheduler.Config{
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		for i := range many {
			if got, err := s.Delete(t.Context(), "default", strconv.Itoa(i)); got[0] == nil || err != nil {
				t.Errorf("task %d: %+v, %v", i, got, err)
			}
		}
		if n := strings.Count(log.String(), "level=WARN"); n != 1 {
			t.Errorf("%d warnings: %s", n, log.String())
		}
	})
}

func plan(t *testing.T, l *reservations.Limiter) float64 {
	t.Helper()
	v, err := l.View(t.Context(), "openai", "")
	if err != nil {
		t.Fatal(err)
	}
	return v.Meters[0].Ahead
}
