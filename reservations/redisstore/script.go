package redisstore

import "github.com/redis/go-redis/v9"

// The keys, below root. All times are whole microseconds of Redis's clock, in 16 digits.
//
//	bucket:NAME  string: the header, then the bucket as BSON, which is empty after a reset. The header is the epoch in
//	             which it was written, and the ID of the call that wrote it.
//	epoch        string: when this run of the server was first seen, and its run_id
//	queue:NAME   list: IDs of calls that lost a swap. Only the first of them may swap; if it does not for queueKept, the
//	             whole queue is forgotten
//	state:ID     list: for the call that has become the first of its queue, what loadScript returns
//	overrides    hash: overrides as BSON, by limit and meter
const root = "headway:{buckets}:"

const (
	keyEpoch     = root + "epoch"
	keyOverrides = root + "overrides"

	anyHeader = "any"
	noHeader  = "none"

	timeSize   = 16
	headerSize = 2 * timeSize
)

func keyBucket(name string) string { return root + "bucket:" + name }
func keyQueue(name string) string  { return root + "queue:" + name }
func keyState(call string) string  { return root + "state:" + call }

// script is a Lua script.
type script struct{ source, hash string }

func newScript(source string) script {
	return script{source: source, hash: redis.NewScript(source).Hash()}
}

// preamble begins a new epoch when the server may have lost buckets, and where the epoch is more than a minute ahead:
// the clock was wrong when it began, and each bucket would wait until then. KEYS are a bucket, its queue and keyEpoch.
const preamble = `
local time = redis.call("TIME")
local now = string.format("%s%06d", time[1], tonumber(time[2]))
local run = string.match(redis.call("INFO", "server"), "run_id:(%w+)") or ""
local epoch = redis.pcall("GET", KEYS[3])
if type(epoch) ~= "string" or string.sub(epoch, 17) ~= run or
	(tonumber(string.sub(epoch, 1, 16)) or math.huge) > tonumber(now) + 60000000 then
	epoch = now .. run
	redis.call("SET", KEYS[3], epoch)
end
epoch = string.sub(epoch, 1, 16)
local stored = redis.pcall("GET", KEYS[1]) or ""
if type(stored) == "table" and ARGV[1] ~= "any" then
	return stored -- the key is no string
end
`

// loadScript returns the epoch, the clock and the stored bucket, as one string; then 0.
var loadScript = newScript(preamble + `return {epoch .. now .. stored, 0}`) //nolint:gochecknoglobals // constant

// swapScript writes a bucket where nothing has changed and no other call is to be the first, and returns nothing. The
// next call of the queue is then sent what loadScript returns. Otherwise the call joins the queue: the script returns
// what loadScript does, and its place. The swap of a call at place 0 that follows is the next.
//
//	ARGV[1] -> the header that was loaded, empty if there was no bucket; anyHeader writes in any case, noHeader never
//	ARGV[2] -> the epoch that was loaded;
//	ARGV[3] -> the ID of the call, 16 characters, and the bucket;
//	ARGV[4] -> milliseconds after which the bucket is forgotten;
//	ARGV[5] -> queueKept, in milliseconds
//	ARGV[6] -> root
//
//nolint:gochecknoglobals // constant
var swapScript = newScript(preamble + `
local call = string.sub(ARGV[3], 1, 16)
local queue = redis.pcall("LRANGE", KEYS[2], 0, -1)
if queue.err or ARGV[1] == "any" and redis.call("PTTL", KEYS[2]) == -1 then -- none of these scripts has made it
	redis.call("DEL", KEYS[2])
	queue = {}
end
local place
for i, id in ipairs(queue) do
	if id == call then
		place = i - 1
	end
end
local first = #queue == 0 or place == 0
if ARGV[1] == "any" or (first and ARGV[1] == string.sub(stored, 1, 32) and ARGV[2] == epoch) then
	stored = epoch .. ARGV[3]
	redis.call("SET", KEYS[1], stored, "PX", ARGV[4])
	if place == 0 then
		redis.call("LPOP", KEYS[2])
		redis.call("PEXPIRE", KEYS[2], ARGV[5])
	end
	if place == 0 and queue[2] then
		local state = ARGV[6] .. "state:" .. queue[2]
		redis.call("RPUSH", state, epoch .. now .. stored)
		redis.call("PEXPIRE", state, ARGV[5])
	end
	return {}
end
if not place then
	place = #queue
	redis.call("RPUSH", KEYS[2], call)
	if place == 0 or redis.call("PTTL", KEYS[2]) == -1 then
		redis.call("PEXPIRE", KEYS[2], ARGV[5])
	end
end
return {epoch .. now .. stored, place}`)

// memoryScript returns what the server says of its memory.
const memoryScript = `return redis.call("INFO", "memory")`
