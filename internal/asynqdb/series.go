package asynqdb

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// firstScript stores the first tick of a series, unless it has one. A tick that can't be read, or is more than a day
// ahead of the clock, is none: the clock was wrong, or something else has written it.
//
//	KEYS[1] -> hash of the series of the queue
//	ARGV[1] -> series
//	ARGV[2] -> schedule
//
// Output: the clock of Redis in microseconds, and what is stored.
const firstScript = `
local time = redis.call("TIME")
local us = string.format("%d%06d", tonumber(time[1]), tonumber(time[2]))
local now, stored = string.sub(us, 1, -4), redis.call("HGET", KEYS[1], ARGV[1])
local digits = string.match(stored or "", "^(%d+) ")
local last = tonumber(digits or "")
if not last or last > tonumber(now) + 86400000 then
	stored = now .. " " .. ARGV[2]
	redis.call("HSET", KEYS[1], ARGV[1], stored)
end
return {us, stored}
`

// skipScript stores a tick of a series as if its task had been enqueued.
//
//	KEYS[1] -> hash of the series of the queue
//	ARGV[1] -> series
//	ARGV[2] -> milliseconds of the tick
//	ARGV[3] -> schedule
const skipScript = `
local last = string.match(redis.call("HGET", KEYS[1], ARGV[1]) or "", "^%d+")
if not last or tonumber(last) < tonumber(ARGV[2]) then
	redis.call("HSET", KEYS[1], ARGV[1], ARGV[2] .. " " .. ARGV[3])
end
return 1
`

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
