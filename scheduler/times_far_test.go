package scheduler_test

import (
	"errors"
	"math"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/tasks"
)

// Any program may write a header with a time far in the future or the past. It must not make a task come back at
// once, repeatedly.
func TestTimesFarAwayDoNotOverflow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, ms := range []int64{
			math.MaxInt64, math.MaxInt64 / 2, time.Date(2400, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli(),
		} {
			headers := map[string]string{
				envelope.HeaderVersion: strconv.Itoa(envelope.Version), envelope.HeaderStartBy: strconv.FormatInt(ms, 10),
			}
			task := asynq.NewTaskWithHeaders("x", nil, headers)
			if d := dispatcher.RetryDelay(0, errors.New("no"), task); d < time.Second || d > time.Hour {
				t.Errorf("%d: comes back after %v", ms, d)
			}
			waits := &dispatcher.DeferredError{Delay: time.Minute}
			if d := time.Until(waits.Snooze(task).Until); d < time.Second || d > time.Hour {
				t.Errorf("%d: waits for %v", ms, d)
			}
			if err := envelope.CheckStart(task, time.Now()); err != nil {
				t.Errorf("%d: %v", ms, err)
			}
		}
		for _, ms := range []int64{math.MinInt64, -1, 0} {
			headers := map[string]string{envelope.HeaderVersion: "1", envelope.HeaderStartBy: strconv.FormatInt(ms, 10)}
			task := asynq.NewTaskWithHeaders("x", nil, headers)
			if err := envelope.CheckStart(task, time.Now()); !errors.Is(err, tasks.ErrExpired) {
				t.Errorf("%d: %v", ms, err)
			}
			if d := dispatcher.RetryDelay(0, errors.New("no"), task); d < 0 || d > time.Second {
				t.Errorf("%d: comes back after %v", ms, d)
			}
		}
	})
}
