package embedded_test

import (
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/headway-go/headway/internal/test/seeded"
)

// TestRandomCommandsAnswerAsRedis runs random commands on a real Redis and in memory, half of them from a script.
func TestRandomCommandsAnswerAsRedis(t *testing.T) {
	t.Parallel()
	actual, memory := twoRedis(t)
	seeded.Check(t, func(rt *rapid.T) {
		answer(t, actual, command{"FLUSHDB"})
		answer(t, memory, command{"FLUSHDB"})
		for range rapid.IntRange(1, 60).Draw(rt, "commands") {
			c := randomCommand(rt)
			if rapid.Bool().Draw(rt, "in a script") {
				c = append(command{"EVAL", `return redis.call(unpack(ARGV))`, 0}, c...)
			}
			if want, got := answer(t, actual, c), answer(t, memory, c); want != got {
				rt.Fatalf("%q:\nRedis  %s\nmemory %s", c, want, got)
			}
		}
	})
}

func randomCommand(t *rapid.T) command {
	key := func() string { return rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key") }
	member := func() string { return rapid.SampledFrom([]string{"m", "n", "o", "p", ""}).Draw(t, "member") }
	number := func() string { return strconv.Itoa(rapid.IntRange(-3, 5).Draw(t, "number")) }
	seconds := func() string { return strconv.Itoa(rapid.IntRange(-1, 3).Draw(t, "thousands of seconds") * 1000) }
	return rapid.SampledFrom([]func() command{
		func() command { return command{"SET", key(), member()} },
		func() command { return command{"SET", key(), member(), "NX", "EX", seconds()} },
		func() command { return command{"GET", key()} },
		func() command { return command{"INCR", key()} },
		func() command { return command{"DEL", key(), key()} },
		func() command { return command{"EXISTS", key(), key()} },
		func() command { return command{"TYPE", key()} },
		func() command { return command{"EXPIRE", key(), seconds()} },
		func() command { return command{"TTL", key()} },
		func() command { return command{"PERSIST", key()} },
		func() command { return command{"RENAME", key(), key()} },
		func() command { return command{"HSET", key(), member(), number()} },
		func() command { return command{"HGET", key(), member()} },
		func() command { return command{"HMGET", key(), member(), member()} },
		func() command { return command{"HDEL", key(), member()} },
		func() command { return command{"HINCRBYFLOAT", key(), member(), number()} },
		func() command { return command{"RPUSH", key(), member()} },
		func() command { return command{"LPUSH", key(), member(), member()} },
		func() command { return command{"LPOP", key()} },
		func() command { return command{"RPOPLPUSH", key(), key()} },
		func() command { return command{"LRANGE", key(), number(), number()} },
		func() command { return command{"LINDEX", key(), number()} },
		func() command { return command{"LREM", key(), number(), member()} },
		func() command { return command{"LTRIM", key(), number(), number()} },
		func() command { return command{"ZADD", key(), number(), member()} },
		func() command { return command{"ZADD", key(), "NX", number(), member()} },
		func() command { return command{"ZADD", key(), "XX", "GT", "CH", number(), member()} },
		func() command { return command{"ZINCRBY", key(), number(), member()} },
		func() command { return command{"ZREM", key(), member(), member()} },
		func() command { return command{"ZSCORE", key(), member()} },
		func() command { return command{"ZRANK", key(), member()} },
		func() command { return command{"ZCARD", key()} },
		func() command { return command{"ZCOUNT", key(), number(), number()} },
		func() command { return command{"ZRANGE", key(), number(), number(), "WITHSCORES"} },
		func() command { return command{"ZREVRANGE", key(), number(), number()} },
		func() command { return command{"ZRANGEBYSCORE", key(), number(), "+inf", "LIMIT", "0", number()} },
		func() command { return command{"ZREMRANGEBYSCORE", key(), number(), number()} },
		func() command { return command{"ZREMRANGEBYRANK", key(), number(), number()} },
		func() command { return command{"ZPOPMIN", key()} },
		func() command { return command{"SADD", key(), member()} },
		func() command { return command{"SREM", key(), member()} },
		func() command { return command{"SISMEMBER", key(), member()} },
	}).Draw(t, "command")()
}
