package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/headway-go/headway/reservations"
)

const (
	// advanceEvery is how often the lines are looked at that may be due too late (restMost where nobody waits), advanceSoon how soon again after one was moved on.
	advanceEvery, advanceSoon = 2 * time.Second, 250 * time.Millisecond
	// advanceAhead is how much later than it has to be the first of a line is due at least, where the line is moved on for that alone.
	advanceAhead = time.Second
	// advanceStep, and what the first takes, is by how much a line is moved at most where its first task is due when it has to be: those who come by that take part of what is there, and it shows only
	// when they have come whether there is more.
	advanceStep = time.Second
	// advanceLeast is by how much a line is moved at least for it to be looked at soon again. What is left of a gap and no longer is forgotten: its bucket would be asked in vain.
	advanceLeast = 10 * time.Millisecond
	// advanceMost is how many lines of each kind are looked at at once. Those beyond that are looked at the next time.
	advanceMost = 128
	// askedMost is after how long a bucket is asked again at the latest about a first task that it could not move on, and askedKept of how many lines that is known.
	askedMost = time.Minute
	askedKept = 4096
)

// aheadScript tells of lines that may be due too late: those from which tasks were withdrawn, the longest gap first, then those whose first task is due in a while, the
// soonest first. Only the waker on duty is answered.
//
//	KEYS[1] -> index
//	KEYS[2] -> waker
//	KEYS[3] -> gaps
//	ARGV[1] -> root of the other keys
//	ARGV[2] -> id of the caller
//	ARGV[3] -> what is a while
//	ARGV[4] -> how many of those that are due in a while to pass over
//	ARGV[5] -> the most of each kind to tell of
//	ARGV[6] -> the largest gap that is none
//	then for each line that was moved on:
//	ARGV[n]   -> line
//	ARGV[n+1] -> by how much
//
// Output: how many of those that are due in a while there were, with those that were told of already; then for each line its name, how long until its first task is due, the place (JSON) of
// that one, empty where none is kept, and the gap. Nothing at all where nobody waits.
const aheadScript = `
for i = 7, #ARGV, 2 do
	if redis.call("ZSCORE", KEYS[3], ARGV[i]) then
		redis.call("ZINCRBY", KEYS[3], -ARGV[i + 1], ARGV[i])
	end
end
if redis.call("HGET", KEYS[2], "id") ~= ARGV[2] then
	return {}
end
if redis.call("EXISTS", KEYS[1]) == 0 then
	redis.call("DEL", KEYS[3])
	return {}
end
redis.call("ZREMRANGEBYSCORE", KEYS[3], "-inf", ARGV[6])
local time = redis.call("TIME")
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local answer, told = {"0"}, {}

local function tell(line, due, gap)
	local first = redis.call("ZRANGE", ARGV[1] .. "line:" .. line, 0, 0)[1]
	told[line] = true
	answer[#answer + 1] = line
	answer[#answer + 1] = string.format("%.0f", tonumber(due) - now)
	answer[#answer + 1] = first and redis.call("HGET", ARGV[1] .. "place:" .. first, "place") or ""
	answer[#answer + 1] = string.format("%.0f", math.min(tonumber(gap) or 0, 9007199254740992)) -- what can be counted: see moment
end

local gaps = redis.call("ZREVRANGE", KEYS[3], 0, ARGV[5] - 1, "WITHSCORES")
for i = 1, #gaps, 2 do
	local due = redis.call("ZSCORE", KEYS[1], gaps[i])
	if due then
		tell(gaps[i], due, gaps[i + 1])
	else -- nobody waits there
		redis.call("ZREM", KEYS[3], gaps[i])
	end
end
local lines = redis.call("ZRANGEBYSCORE", KEYS[1], now + tonumber(ARGV[3]), "+inf", "WITHSCORES", "LIMIT", ARGV[4], ARGV[5])
answer[1] = tostring(#lines / 2)
for i = 1, #lines, 2 do
	if not told[lines[i]] then
		tell(lines[i], lines[i + 1], "0")
	end
end
return answer
`

// foremost is the first task of a line that may be due too late.
type foremost struct {
	line string
	wait time.Duration // until it is due
	kept keptPlace     // zero where nothing is kept, or nothing that can be read
	gap  time.Duration // what those would have taken who were withdrawn, less what the line was moved on
}

// ahead tells of lines that may be due too late, if the waker with this id is on duty, after it has noted by how much lines were moved on. Far is how many of those that are due in a
// while were looked at; negative where nobody waits, or another one is on duty.
func (l lines) ahead(ctx context.Context, id string, from int, moved map[string]time.Duration) (all []foremost, far int, err error) {
	args := []any{root, id, advanceAhead.Microseconds(), from, advanceMost, advanceLeast.Microseconds()}
	for line, d := range moved {
		args = append(args, line, d.Microseconds())
	}
	texts, err := l.looking.Run(ctx, l.client, []string{root + "index", root + "waker", root + "gaps"}, args...).StringSlice()
	if err != nil {
		return nil, 0, fmt.Errorf("look for lines that are due too late: %w", err)
	}
	if len(texts) == 0 {
		return nil, -1, nil
	}
	if far, err = strconv.Atoi(texts[0]); err != nil {
		return nil, 0, fmt.Errorf("read how many lines were looked at: %w", err)
	}
	for i := 1; i+3 < len(texts); i += 4 {
		f := foremost{line: texts[i]}
		var failed error
		f.wait, err = microseconds(texts[i+1])
		f.gap, failed = microseconds(texts[i+3])
		if err = errors.Join(err, failed); err != nil {
			return nil, 0, err
		}
		if json.Unmarshal([]byte(texts[i+2]), &f.kept) != nil { // whoever is delivered tells of it
			f.kept = keptPlace{}
		}
		all = append(all, f)
	}
	return all, far, nil
}

// advancer moves lines on whose tasks are due later than they have to be: others that stood there were withdrawn or lost, and what comes back in the time that
// they would have taken would be there for nobody. It runs beside the waker, for it asks the buckets.
type advancer struct {
	lines   lines
	id      string // of the waker
	limiter *reservations.Limiter
	moved   func(bucket string, o reservations.Outcome)
	logger  *slog.Logger
	now     func() time.Time

	// What is below belongs to the goroutine of run.
	from  int                      // how many lines are passed over the next time
	notes map[string]time.Duration // by how much lines were moved on, for the next look
	asked map[string]asked
}

// asked is what a bucket was asked last about its line, where it could not move it, or was not asked yet.
type asked struct {
	due   time.Time // of the first task
	next  time.Time // when it is asked, should that one be the first still
	pause time.Duration
}

func newAdvancer(s *Scheduler) *advancer {
	return &advancer{
		lines: s.lines, id: s.waker.id, limiter: s.limiter, moved: s.Moved, logger: s.config.Logger, now: time.Now,
		notes: map[string]time.Duration{}, asked: map[string]asked{},
	}
}

// run looks at the lines until stop is closed: then it waits for no bucket.
func (a *advancer) run(ctx context.Context, stop <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	var stopping sync.WaitGroup
	defer stopping.Wait()
	defer cancel()
	stopping.Go(func() {
		defer cancel()
		select {
		case <-stop:
		case <-ctx.Done():
		}
	})
	timer := time.NewTimer(advanceEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		timer.Reset(a.look(ctx))
	}
}

// look asks the buckets of lines that may be due too late, until ctx ends or a bucket can't be asked. It says after which pause to look again: soon where a line was moved on by a step, and there is
// more to make up for; where many became due at once, they have to start before it shows whether there is room for more.
func (a *advancer) look(ctx context.Context) (pause time.Duration) {
	lines, far, err := a.lines.ahead(ctx, a.id, a.from, a.notes)
	if err != nil { // the waker tells of it
		a.logger.DebugContext(ctx, "lines can't be looked at", slog.Any("error", err))
		return advanceEvery
	}
	clear(a.notes)
	if far < 0 {
		a.from = 0
		return restMost
	}
	pause = advanceEvery
	for _, f := range lines {
		if ctx.Err() != nil {
			return pause
		}
		most, step := a.most(f)
		if most <= 0 {
			continue
		}
		moved, err := a.ask(ctx, f, most)
		if errors.Is(err, reservations.ErrUnavailable) {
			return advanceEvery
		}
		if step && moved >= advanceLeast && f.gap-moved >= advanceLeast {
			pause = advanceSoon
		}
	}
	if a.from += far; far < advanceMost {
		a.from = 0
	}
	return pause
}

// most is by how much the line is moved at most: by what is left of the gap, in steps where the first is due when it has to be. Where it is due later than what it takes needs to come
// back, and no gap tells why, by whatever that is, but not before it was seen so twice: those before it may be about to be noted, or to start. Nothing where the bucket was asked not
// long ago.
func (a *advancer) most(f foremost) (most time.Duration, step bool) {
	if f.line != lineName(f.kept.Bucket, f.kept.Generation) { // that of urgent tasks, of an outage, or nothing is known
		return 0, false
	}
	last := a.asked[f.line]
	known := last.due.Equal(f.kept.Due)
	if known && a.now().Before(last.next) {
		return 0, false
	}
	lasts := a.limiter.Lasts(f.charge())
	switch {
	case lasts == 0:
		return 0, false
	case f.wait <= advanceAhead+lasts:
		return min(f.gap, advanceStep+lasts), true
	case known:
		return reservations.MaxWait, false
	case f.gap == 0:
		a.rest(f, advanceEvery/2)
	}
	return f.gap, false
}

// charge is what the first takes from the bucket in whose line it stands.
func (f foremost) charge() reservations.Charge {
	c := reservations.ParseBucket(f.kept.Bucket)
	c.Tokens = f.kept.Tokens
	return c
}

// ask has the bucket move its line on, and says by how much it did.
func (a *advancer) ask(ctx context.Context, f foremost, most time.Duration) (time.Duration, error) {
	o, moved, err := a.limiter.Advance(ctx, f.charge(), f.kept.Place, most)
	if err != nil {
		a.logger.DebugContext(ctx, "line not moved on", slog.String("bucket", f.kept.Bucket), slog.Any("error", err))
	}
	a.moved(f.kept.Bucket, o)
	if moved > 0 {
		a.notes[f.line] = moved
	}
	if moved >= advanceLeast {
		delete(a.asked, f.line)
		return moved, err
	}
	pause := advanceEvery / 2
	if last := a.asked[f.line]; last.due.Equal(f.kept.Due) {
		pause = min(2*last.pause, askedMost)
	}
	a.rest(f, pause)
	return moved, err
}

// rest lets the bucket alone for a while.
func (a *advancer) rest(f foremost, pause time.Duration) {
	if len(a.asked) >= askedKept {
		clear(a.asked)
	}
	a.asked[f.line] = asked{due: f.kept.Due, next: a.now().Add(pause), pause: pause}
}
