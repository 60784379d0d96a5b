package envelope

import (
	"fmt"
	"strconv"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/tasks"
)

// The headers with the times of a task: milliseconds since 1970. A task without such a time has no such header.
const (
	// HeaderAt is the header of Options.At.
	HeaderAt = "headway-at"
	// HeaderStartBy is the header of Options.StartBy.
	HeaderStartBy = asynqdb.HeaderStartBy
)

// At returns the earliest start of the task. It is zero if there is none, or if the header is unreadable.
func At(t *asynq.Task) time.Time { return timeIn(t, HeaderAt) }

// StartBy returns the latest start of the task. It is zero if there is none, or if the header is unreadable.
func StartBy(t *asynq.Task) time.Time { return timeIn(t, HeaderStartBy) }

// CheckStart returns an error that matches ErrExpired if the StartBy of the task has passed. The error is permanent.
func CheckStart(t *asynq.Task, now time.Time) error {
	if by := StartBy(t); !by.IsZero() && !now.Before(by) {
		return tasks.Permanent(fmt.Errorf("%w: it had to start by %s", tasks.ErrExpired, ClockText(by)))
	}
	return nil
}

func writeTimes(headers map[string]string, o tasks.Options) {
	for header, at := range map[string]time.Time{HeaderAt: o.At, HeaderStartBy: o.StartBy} {
		if !at.IsZero() {
			headers[header] = strconv.FormatInt(at.UnixMilli(), 10)
		}
	}
}

// timeIn is a time within bounds, so that differences of times do not overflow.
func timeIn(t *asynq.Task, header string) time.Time {
	ms, err := strconv.ParseInt(t.Headers()[header], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(min(max(0, ms), latest().UnixMilli()))
}

// latest is the last moment that a task can name: Redis's scores are exact until then, and all waits are in a Duration.
func latest() time.Time { return time.Date(2200, time.January, 1, 0, 0, 0, 0, time.UTC) }

// ClockText is a time as the texts of tasks show it.
func ClockText(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
