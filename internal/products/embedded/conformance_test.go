package embedded_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/products/embedded"
	"github.com/headway-go/headway/internal/test/testenv"
)

// command is a name and its arguments.
type command = []any

func eval(script string, args ...any) command {
	return append(command{"EVAL", script, 1, "k"}, args...)
}

// far is the unit of times to live, in seconds. The answers are rounded to it, because both servers are asked at
// different moments.
const far = 10_000

// same are commands for an empty database, whose answers in memory must be the ones of a real Redis.
var same = map[string][]command{
	"values to clients": {
		eval(`return 3.99`), eval(`return -3.99`), eval(`return "text"`), eval(`return true`), eval(`return false`),
		eval(`return nil`), eval(`return`), eval(`return {1, 2.5, "three", {4, {}}, false, true}`),
		eval(`return {1, nil, 3}`),
		eval(`return {ok = "FINE"}`), eval(`return {err = "MY error"}`), eval(`return {a = 1}`),
		eval(`return {1, {ok = "x"}}`),
		eval(`return 1, 2`), eval(`return {KEYS[1], ARGV[1], ARGV[2], #ARGV}`, "a\r\n\x00b", ""),
		eval(`return function() end`),
	},
	"values to scripts": {
		{"SET", "k", "v"},
		eval(`return type(redis.call("GET", "none"))`),
		eval(`return redis.call("GET", "none") == false`),
		eval(`return redis.call("SET", KEYS[1], 7)`), eval(`return redis.call("SET", KEYS[1], 7).ok`),
		eval(`return type(redis.call("INCR", KEYS[1]))`), eval(`return redis.call("INCR", KEYS[1])`),
		eval(`return redis.call("MGET", "none", KEYS[1])`), eval(`return #redis.call("LRANGE", "none", 0, -1)`),
		eval(`return redis.call("HGETALL", "none")`), eval(`return redis.call("TYPE", KEYS[1])`),
		eval(`return redis.call("TYPE", KEYS[1]).ok`), eval(`return redis.call("ZSCORE", "none", "m")`),
		eval(`return redis.call("ECHO", ARGV[1])`, "a\r\nb\x00\xff"), eval(`return redis.call("PING")`),
		eval(`return type(redis.call("TIME")[1])`),
	},
	"numbers as arguments": {
		eval(`return redis.call("ECHO", 1)`), eval(`return redis.call("ECHO", 1.5)`),
		eval(`return redis.call("ECHO", -0.1)`),
		eval(`return redis.call("ECHO", 1e15)`), eval(`return redis.call("ECHO", 1792000000123456)`),
		eval(`return redis.call("ECHO", 9007199254740992)`), eval(`return redis.call("ECHO", 0.1 + 0.2)`),
		eval(`return redis.call("ECHO", 1e100)`), eval(`return redis.call("ECHO", 1e-7)`),
		eval(`return redis.call("ECHO", 0 / 1)`),
		eval(`return string.format("%.17g %.0f %d %s", 0.1, 1e15, 42, "x")`),
	},
	"errors": {
		{"RPUSH", "k", "a"},
		eval(`return redis.call("GET", KEYS[1])`), eval(`return redis.pcall("GET", KEYS[1])`),
		eval(`return redis.pcall("GET", KEYS[1]).err`),
		eval(`local ok, e = pcall(redis.call, "GET", KEYS[1]) return {tostring(ok), type(e), e}`),
		eval(`redis.call("SET", "before", 1) redis.call("GET", KEYS[1])`),
		{"GET", "before"},
		eval(`return redis.error_reply("MY error")`), eval(`return redis.error_reply("short")`),
		eval(`return redis.error_reply("-MY dash")`), eval(`return redis.status_reply("FINE")`),
		eval(`return redis.call("NONE")`), eval(`return redis.pcall("NONE").err`), eval(`return redis.call("GET")`),
		eval(`return redis.pcall("GET").err`), eval(`return redis.call()`), eval(`return redis.call("ECHO", {})`),
		eval(`return redis.call("ECHO", true)`), eval(`return redis.pcall("ECHO", nil)`), eval(`error("mine")`),
		eval(`return {pcall(error, {err = "MY table"})}`), eval(`return {pcall(error, {mine = 1})}`),
		eval("\n\nerror('x')"), eval(`return none`), eval(`none = 1`),
		eval(`_G.none = 1`), eval(`return #{pcall(rawset, _G, "none", 1)}`), eval(`string.none = 1`),
		eval(`redis.call = 1`), eval(`this is no Lua`),
		{"EVAL", "return 1", "x"},
		{"EVAL", "return 1", -1},
		{"EVAL", "return 1", 2, "a"},
		{"EVAL", "return 1"},
		{"EVALSHA", strings.Repeat("0", 40), 0},
		{"SCRIPT", "LOAD", "no Lua"},
		eval(`return redis.call("EVAL", "return 1", 0)`),
		eval(`return redis.call("SUBSCRIBE", "c")`), eval(`return redis.call("MULTI")`),
		eval(`return redis.pcall("SET", KEYS[1], 1, "EX", 0).err ~= nil`),
		{"SET", "k", 1, "PX", "x"},
		{"EVAL_RO", `return redis.call("SET", "a", 1)`, 0},
	},
	"scripts by their sums": {
		{"SCRIPT", "LOAD", "return ARGV[1]"},
		{"EVALSHA", "098e0f0d1448c0a81dafe820f66d460eb09263da", 0, "x"},
		{"SCRIPT", "EXISTS", "098e0f0d1448c0a81dafe820f66d460eb09263da", "0000000000000000000000000000000000000000"},
		{"SCRIPT", "LOAD", "return 'mine'"},
		{"EVALSHA", strings.ToUpper("e7a5c1b6b25ab3a4a86d2fca0eb0dba5d2b5bc3d"), 0},
		eval(`return redis.sha1hex("")`), eval(`return redis.sha1hex("abc")`),
	},
	"globals are of one run": {
		eval(`local t = {} t.x = 1 return t.x`), eval(`return {type(_G.KEYS), type(_G.redis)}`),
		eval(`local f = loadstring("return 5") return f()`),
		eval(`return {type(print), type(require), type(dofile), type(io), type(debug)}`),
		eval(`return #{pcall(setmetatable, _G, {})}`), eval(`ARGV = nil return 1`), eval(`return #ARGV`, 1, 2),
		eval(`return #{pcall(function() getmetatable("").__index = nil end)}`), eval(`return ARGV[1]`, "y"),
		eval(`return ("abc"):upper()`),
	},
	"libraries": {
		eval(`return cjson.decode('{"a": [1, 2, {"b": "c"}]}').a[3].b`), eval(`return {pcall(cjson.decode, "{")}[1]`),
		eval(`return type(cjson.decode('{"a": 1.5}').a)`), eval(`return cjson.encode({1, "a", true})`),
		eval(`return cjson.encode({a = 1})`), eval(`return cjson.encode({})`), eval(`return cjson.encode({{}, {{1}}})`),
		eval(`return cjson.encode({1, nil, 3})`), eval(`return cjson.encode({[1] = 1, [4] = 4})`),
		eval(`return cjson.encode({[1] = 1, x = 4}):len()`), eval(`return cjson.encode({[1.5] = 1})`),
		eval(`return cjson.encode({[0] = "a"})`), eval(`return cjson.encode({[1e6] = 1})`),
		eval(`return cjson.encode({1e15, 1.5, -0.1, 1e14, 123456789012345, 0.1 + 0.2, 1e-7, 1e100, -3})`),
		eval(`return cjson.encode(ARGV[1])`, "a/b \" \\ \b\f\n\r\t\x00\x01\x1f\x7f\xff <&> ü"),
		eval(`return cjson.encode(1 / 0)`), eval(`return cjson.encode(0 / 0)`), eval(`return cjson.encode(print)`),
		eval(`return cjson.encode({[true] = 1})`), eval(`return cjson.encode(nil)`), eval(`return cjson.encode(false)`),
		eval(`return cjson.encode({function() end})`),
		eval(`local t = {} for i = 1, 998 do t = {t} end return cjson.encode(t)`),
		eval(`local t = {} for i = 1, 1000 do t = {t} end return cjson.encode(t)`),
		eval(`return {string.match("12 1 3.5", "^(%d+) ([01]) (%S+)$")}`),
		eval(`return {string.find("a\0b", "\0", 1, true)}`),
		eval(`local t = {3, 1, 2} table.sort(t) return t`), eval(`return math.floor(-1.5)`),
		eval(`return {unpack({1, 2, 3})}`),
		eval(`return {select(2, "a", "b", "c")}`), eval(`local t = {} for i = 1, 7000 do t[i] = i end return #{unpack(t)}`),
		eval(`local c = coroutine.wrap(function() coroutine.yield(redis.call("PING").ok) end) return c()`),
		eval(`return tostring(tonumber("0x10")) .. tostring(tonumber("x"))`), eval(`return table.concat({1, 2, "x"}, ",")`),
	},
	"times to live": {
		{"SET", "k", "v", "EX", 100 * far},
		{"TTL", "k"},
		{"PERSIST", "k"},
		{"TTL", "k"},
		{"PTTL", "k"},
		{"TTL", "none"},
		{"EXPIRE", "none", 1 * far},
		{"EXPIRE", "k", 10 * far},
		{"TTL", "k"},
		{"EXPIRE", "k", 20 * far, "NX"},
		{"EXPIRE", "k", 20 * far, "GT"},
		{"TTL", "k"},
		{"EXPIRE", "k", 15 * far, "GT"},
		{"EXPIRE", "k", 5 * far, "LT"},
		{"TTL", "k"},
		{"RENAME", "k", "k2"},
		{"TTL", "k2"},
		{"SET", "k2", "v"},
		{"TTL", "k2"},
		{"SETEX", "k", 30 * far, "v"},
		{"TTL", "k"},
		{"GETEX", "k", "EX", 40 * far},
		{"TTL", "k"},
		{"SET", "k", "w", "KEEPTTL"},
		{"TTL", "k"},
		{"EXPIREAT", "k", 4102444800},
		{"EXPIRETIME", "k"},
		{"PEXPIREAT", "k", 4102444800123},
		{"PEXPIRETIME", "k"},
		{"EXPIREAT", "k", 1},
		{"EXISTS", "k"},
		{"SET", "k", "v"},
		{"EXPIRE", "k", -1},
		{"EXISTS", "k"},
		{"SET", "k", "v"},
		{"EXPIRE", "k", 0},
		{"EXISTS", "k"},
		{"SET", "k", "v", "PXAT", 1},
		{"EXISTS", "k"},
		{"PSETEX", "k", 0, "v"},
		{"SET", "k", "v"},
		{"EXPIRE", "k", "x"},
		{"COPY", "k2", "k3"},
		{"TTL", "k3"},
		{"HSET", "h", "f", "v"},
		{"EXPIRE", "h", 7 * far},
		{"HSET", "h", "f", "w"},
		{"TTL", "h"},
		{"DEL", "h"},
		{"HSET", "h", "f", "w"},
		{"TTL", "h"},
		eval(`redis.call("SET", KEYS[1], 1, "PX", 5000) return redis.call("TTL", KEYS[1])`),
		eval(`redis.call("PEXPIRE", KEYS[1], 9000) return {redis.call("PTTL", KEYS[1]), redis.call("PTTL", "none")}`),
	},
	"sorted sets": {
		{"ZADD", "k", 3, "c", 1, "a", 2, "b", 2, "bb"},
		{"ZRANGE", "k", 0, -1, "WITHSCORES"},
		{"ZREVRANGE", "k", 0, 1},
		{"ZRANK", "k", "bb"},
		{"ZRANGEBYSCORE", "k", "-inf", "(3"},
		{"ZRANGEBYSCORE", "k", 2, "+inf", "LIMIT", 1, 1},
		{"ZCOUNT", "k", 2, 3},
		{"ZSCORE", "k", "b"},
		{"ZADD", "k", "XX", "GT", 9, "a"},
		{"ZINCRBY", "k", "1.5", "a"},
		{"ZINCRBY", "k", "0.1", "a"},
		{"ZRANGE", "k", 0, -1, "WITHSCORES"},
		{"ZADD", "k", "1792000000123456", "t"},
		{"ZSCORE", "k", "t"},
		{"ZADD", "k", "0.30000000000000004", "u"},
		{"ZSCORE", "k", "u"},
		{"ZADD", "k", "inf", "i"},
		{"ZSCORE", "k", "i"},
		{"ZREMRANGEBYSCORE", "k", 2, 3},
		{"ZREMRANGEBYRANK", "k", 0, 0},
		{"ZREM", "k", "a", "none"},
		{"ZCARD", "k"},
		{"ZPOPMIN", "k"},
		{"ZRANGE", "k", 0, -1},
		{"ZADD", "k", "x", "a"},
		{"ZREM", "k", "i", "t"},
		{"EXISTS", "k"},
		eval(`redis.call("ZADD", KEYS[1], "1.5", "x") return redis.call("ZRANGE", KEYS[1], 0, 0, "WITHSCORES")`),
	},
	"other types": {
		{"HSET", "h", "a", 1, "b", 2},
		{"HINCRBYFLOAT", "h", "a", "0.1"},
		{"HINCRBYFLOAT", "h", "a", "-1.1"},
		{"HMGET", "h", "a", "none"},
		{"HSETNX", "h", "a", 9},
		{"HDEL", "h", "a", "none"},
		{"HLEN", "h"},
		{"HEXISTS", "h", "b"},
		{"RPUSH", "l", "a", "b", "c", "a"},
		{"LPOS", "l", "c"},
		{"LREM", "l", 1, "a"},
		{"LRANGE", "l", 0, -1},
		{"RPOPLPUSH", "l", "m"},
		{"LINDEX", "l", -1},
		{"LSET", "l", 0, "z"},
		{"LTRIM", "l", 0, 0},
		{"LPOP", "l"},
		{"EXISTS", "l"},
		{"SADD", "s", "x", "y"},
		{"SMEMBERS", "s"},
		{"SREM", "s", "x"},
		{"SCARD", "s"},
		{"TYPE", "s"},
		{"SET", "n", 1, "NX"},
		{"SET", "n", 2, "NX"},
		{"SET", "n", 3, "GET"},
		{"INCRBY", "n", 4},
		{"INCR", "s"},
		{"DBSIZE"},
		{"SCAN", 0, "MATCH", "*", "COUNT", 100},
		{"KEYS", "?"},
		{"UNLINK", "n", "none"},
		{"FLUSHDB"},
		{"DBSIZE"},
		{"NONE", "x"},
		{"GET"},
	},
	"transactions": {
		{"EXEC"},
		{"DISCARD"},
		{"MULTI"},
		{"MULTI"},
		{"SET", "k", 1},
		{"INCR", "k"},
		{"EXPIRE", "k", 10 * far},
		{"TTL", "k"},
		eval(`return redis.call("INCR", KEYS[1])`),
		{"RPUSH", "k", 1},
		{"EXEC"},
		{"GET", "k"},
		{"MULTI"},
		{"GET"},
		{"SET", "k", 9},
		{"EXEC"},
		{"GET", "k"},
		{"MULTI"},
		{"SET", "k", 9},
		{"DISCARD"},
		{"GET", "k"},
		{"MULTI"},
		{"NONE"},
		{"EXEC"},
		{"MULTI"},
		{"EXEC"},
	},
}

// TestAnswersAsRedis runs commands on a real Redis and in memory.
func TestAnswersAsRedis(t *testing.T) {
	t.Parallel()
	for name, commands := range same {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			actual, memory := twoRedis(t)
			for _, c := range commands {
				if want, got := answer(t, actual, c), answer(t, memory, c); want != got {
					t.Errorf("%q:\nRedis  %s\nmemory %s", c, want, got)
				}
			}
		})
	}
}

// twoRedis returns a connection to a real Redis and one to memory.
func twoRedis(t *testing.T) (actual, memory *redis.Conn) {
	t.Helper()
	options, err := redis.ParseURL(testenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	server, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	inMemory, err := redis.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	options.Protocol, inMemory.Protocol = 2, 2 // miniredis has no pairs in its answers
	clients := []*redis.Client{redis.NewClient(options), redis.NewClient(inMemory)}
	conns := []*redis.Conn{clients[0].Conn(), clients[1].Conn()}
	t.Cleanup(func() {
		for i := range conns {
			_ = conns[i].Close()
			_ = clients[i].Close()
		}
		server.Close()
	})
	return conns[0], conns[1]
}

// answer is the answer of a command as text.
func answer(t *testing.T, conn *redis.Conn, c command) string {
	t.Helper()
	value, err := conn.Do(t.Context(), c...).Result()
	if err != nil {
		return "error " + common(err.Error())
	}
	if left, ok := value.(int64); ok && c[0] == "TTL" && left > 0 {
		value = (left + far/2) / far
	}
	if list, ok := value.([]any); ok && (c[0] == "SMEMBERS" || c[0] == "KEYS") {
		slices.SortFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	if list, ok := value.([]any); ok && c[0] == "SCAN" {
		keys := list[1].([]any)
		slices.SortFunc(keys, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	return fmt.Sprintf("%#v", value)
}

// common is an error without the words that differ between miniredis and Redis.
func common(err string) string {
	if strings.HasPrefix(err, "ERR Error compiling script") {
		return "ERR Error compiling script"
	}
	if strings.HasPrefix(err, "ERR unknown command") {
		return "ERR unknown command"
	}
	if text, found := strings.CutPrefix(err, "ERR invalid expire time in "); found {
		return "invalid expire time " + strings.ReplaceAll(strings.ReplaceAll(text, "'", ""), " command", "")
	}
	return err
}
