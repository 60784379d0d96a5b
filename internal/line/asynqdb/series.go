package asynqdb

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// LastTick returns the last tick of a series, and Redis's clock. A series without one begins now, with this schedule.
func (d *DB) LastTick(ctx context.Context, queue, series, schedule string) (last Tick, now time.Time, err error) {
	answer, err := d.first.Run(ctx, d.client, []string{seriesKey(queue)}, series, schedule).StringSlice()
	if err == nil && len(answer) != 2 {
		err = errors.New("not two answers")
	}
	if err != nil {
		return Tick{}, time.Time{}, fmt.Errorf("read the last tick of %q: %w", series, err)
	}
	us, err := strconv.ParseInt(answer[0], 10, 64)
	ms, schedule, _ := strings.Cut(answer[1], " ")
	if last.MS, _ = strconv.ParseInt(ms, 10, 64); err != nil {
		return Tick{}, time.Time{}, fmt.Errorf("read the clock of Redis: %w", err)
	}
	last.Schedule = schedule
	return last, time.UnixMicro(us).UTC(), nil
}

// SkipTick stores a tick of a series, so that no task is enqueued for it or an earlier one.
func (d *DB) SkipTick(ctx context.Context, queue, series string, tick Tick) error {
	err := d.skip.Run(ctx, d.client, []string{seriesKey(queue)}, series, tick.MS, tick.Schedule).Err()
	if err != nil {
		return fmt.Errorf("skip a tick of %q: %w", series, err)
	}
	return nil
}
