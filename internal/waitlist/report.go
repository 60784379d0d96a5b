package waitlist

import (
	"context"
	"time"
)

// reportScript stores answers of buckets and removes tasks that began.
//
//	ARGV[2]    -> number of answers
//	ARGV[3...] -> for each: bucket, generation, version, the store's clock, state, "1" for a look now, else "0", "1" to
//	              store it in any case, else "0"
//	then the tasks that began
//
// Output: nothing.
const reportScript = `
local before, i = soonest(), 3
for _ = 1, tonumber(ARGV[2]) do
	local bucket, generation, version = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
	local meta = root .. "meta:" .. bucket
	local epoch, g, v, failed = unpack(redis.call("HMGET", meta, "epoch", "generation", "version", "failed_until"))
	g, v = number(g), number(v)
	if not epoch and (ARGV[i + 5] == "1" or ARGV[i + 6] == "1") then
		epoch = whole(now)
		redis.call("HSET", meta, "epoch", epoch)
	end
	if epoch and idle(bucket) and redis.call("PTTL", meta) < 60000 then
		redis.call("PEXPIRE", meta, 60000)
	end
	if epoch then
		local look = ARGV[i + 5] == "1"
		if generation > g or generation == g and version >= v then
			redis.call("HSET", meta, "generation", ARGV[i + 1], "version", ARGV[i + 2], "state", ARGV[i + 4],
				"offset", whole(tonumber(ARGV[i + 3]) - now))
			if failed then
				redis.call("HDEL", meta, "failed_until", "faulty_since", "away_since")
				redis.call("ZREM", KEYS[2], bucket)
				look = true
			end
		end
		if look and not idle(bucket) then
			forward(bucket)
		end
	end
	i = i + 7
end
local left = {}
for j = i, #ARGV do
	local bucket = withdraw(ARGV[j])
	if bucket then
		left[bucket] = true
	end
	redis.call("DEL", root .. "task:" .. ARGV[j])
end
for bucket in pairs(left) do
	tidy(bucket)
end
wake(before)
return {}
`

// failScript notes that a bucket could not be asked. The end of an outage of the store is not that of a bucket that
// alone can't be asked. An outage of which nothing was seen for 30 s is over; buckets that failed long ago are no longer
// in use.
//
//	ARGV[2] -> bucket
//	ARGV[3] -> the shortest pause, in microseconds
//	ARGV[4] -> the longest pause
//	ARGV[5] -> how much longer the pause is, 0 to 1
//	ARGV[6] -> "1" if the store is away, "0" if the bucket alone can't be asked
//
// Output: the pause in force, "1" if the failure began.
const failScript = `
local bucket, meta, away = ARGV[2], root .. "meta:" .. ARGV[2], ARGV[6] == "1"
local since = away and "away_since" or "faulty_since"
local before = number(redis.call("HGET", meta, "failed_until"))
if away and before < now - 30000000 then
	redis.call("HDEL", meta, since)
end
redis.call("HSETNX", meta, "epoch", whole(now))
local began = redis.call("HSETNX", meta, since, whole(now))
local lasted = now - number(redis.call("HGET", meta, since))
local pause = math.min(math.max(lasted, tonumber(ARGV[3])), tonumber(ARGV[4])) * (1 + tonumber(ARGV[5]))
local at = math.max(now + pause, before)
redis.call("HSET", meta, "failed_until", whole(at))
if away then
	redis.call("ZADD", KEYS[2], whole(at), bucket)
	redis.call("ZREMRANGEBYSCORE", KEYS[2], "-inf", now - 600000000)
else
	redis.call("ZREM", KEYS[2], bucket)
end
if not tidy(bucket) then
	redis.call("ZADD", KEYS[1], whole(at), bucket)
end
return {whole(at - now), tostring(began)}
`

// recoverScript ends failures of at most so many buckets.
//
//	ARGV[2] -> how many
//
// Output: how many it ended.
const recoverScript = `
local before = soonest()
local buckets = redis.call("ZRANGE", KEYS[2], 0, tonumber(ARGV[2]) - 1)
for _, bucket in ipairs(buckets) do
	redis.call("HDEL", root .. "meta:" .. bucket, "failed_until", "away_since")
	redis.call("ZREM", KEYS[2], bucket)
	if not tidy(bucket) then
		forward(bucket)
	end
end
wake(before)
return {tostring(#buckets)}
`

// Answer is what a bucket answered.
type Answer struct {
	Bucket string
	// Generation, then Version, order the answers of a bucket. Neither is negative, or above 2^53.
	Generation, Version int64
	// Store is the clock of the bucket's store at the moment of the call: that of the answer plus its age.
	Store time.Time
	// State is the bucket as the dispatcher reads it. The package does not read it.
	State []byte
	// Sooner says that waiting tasks may be able to start earlier than the dispatcher knows.
	Sooner bool
	// Joins says that a task is about to join.
	Joins bool
}

// Report stores the newest answer of each bucket if a task waited there in the last minutes, or with Sooner or Joins: a
// task that joins a moment later must not wait by an older answer. It removes every trace of the tasks that began. An
// answer that is stored ends the failure of its bucket. With Sooner, a look at the bucket is due if tasks wait there, and
// the dispatcher is woken.
func (w *Waitlist) Report(ctx context.Context, answers []Answer, begun []Task) error {
	args := []any{len(answers)}
	for _, a := range answers {
		args = append(args, a.Bucket, a.Generation, a.Version, a.Store.UnixMicro(), a.State, a.Sooner, a.Joins)
	}
	for _, t := range begun {
		args = append(args, t.String())
	}
	_, err := w.run(ctx, "report to the waitlists", w.scripts.report, args...)
	return err
}

// Failure is why a bucket could not be asked.
type Failure struct {
	// Away says that its store is away, and not that the bucket alone can't be asked.
	Away bool
	// The pause is as long as the failure has lasted, at least Shortest and at most Longest, and longer by the part that
	// Random says.
	Shortest, Longest time.Duration
	Random            float64
}

// Fail notes that the bucket could not be asked: no look at it is due for a pause, unless an answer is reported, or
// Recover is called where the store is away. A shorter pause does not replace a longer one. It returns the pause in
// force, and whether the failure began.
func (w *Waitlist) Fail(ctx context.Context, bucket string, f Failure) (pause time.Duration, began bool, err error) {
	r, err := w.run(ctx, "note a bucket that could not be asked", w.scripts.fail,
		bucket, f.Shortest.Microseconds(), f.Longest.Microseconds(), f.Random, f.Away)
	if err != nil {
		return 0, false, err
	}
	pause, began = r.duration(), r.flag()
	return pause, began, r.err
}

// Recover ends the failure of every bucket whose store was away. A look at each in which tasks wait is due.
func (w *Waitlist) Recover(ctx context.Context) error {
	for {
		r, err := w.run(ctx, "ask buckets again", w.scripts.recover, together)
		if err != nil {
			return err
		}
		if ended := r.count(); ended < together || r.err != nil {
			return r.err
		}
	}
}
