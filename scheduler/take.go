package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/encoding/protowire"
)

// takeScript takes tasks of one queue out of asynq's list of those that are delivered next, where it is long, and puts them where tasks wait that were enqueued for
// later. Those that were woken are left: their time has come. So are those of a group, and all of a queue that is paused.
//
//	KEYS[1] -> asynq's list of pending tasks: workers take from its right
//	KEYS[2] -> there while the queue is paused
//	KEYS[3] -> asynq's set of scheduled tasks
//	ARGV[1] -> where the keys of the queue's tasks begin
//	ARGV[2] -> the most tasks to take
//	ARGV[3] -> how long the list is at least
//	ARGV[4] -> in how many seconds asynq delivers them, should nothing else happen
//	ARGV[5] -> how many that were woken are passed at most
//
// Output: for each task its ID and asynq's message, the first to be delivered first.
const takeScript = countWoken + `
if redis.call("EXISTS", KEYS[2]) == 1 or redis.call("LLEN", KEYS[1]) < tonumber(ARGV[3]) then
	return {}
end
local at = tonumber(redis.call("TIME")[1]) + tonumber(ARGV[4])
local n = before(tonumber(ARGV[5]))
local ids, answer = redis.call("LRANGE", KEYS[1], -n - tonumber(ARGV[2]), -n - 1), {}
for i = #ids, 1, -1 do
	local key = ARGV[1] .. ids[i]
	local t = redis.call("HMGET", key, "state", "msg", "group", "` + fieldWoken + `")
	local free = t[1] == "pending" and t[2] and (not t[3] or t[3] == "") and not t[4]
	if free and redis.call("LREM", KEYS[1], -1, ids[i]) == 1 then
		redis.call("ZADD", KEYS[3], at, ids[i])
		redis.call("HSET", key, "state", "scheduled")
		redis.call("HDEL", key, "pending_since")
		answer[#answer + 1] = ids[i]
		answer[#answer + 1] = t[2]
	end
end
return answer
`

// fieldWoken is our mark in asynq's hash of a task that was woken: it is not given a time once more before it is delivered.
const fieldWoken = "headway_woken"

// taker takes tasks that nobody was given yet. The keys are asynq's own and not part of its public interface, as those of rouser.
//
// The script is one atomic change, and what is taken is asynq's to deliver all the time: who is killed between this and anything after it leaves the tasks where asynq
// delivers them a little later.
type taker struct {
	client redis.UniversalClient
	script *redis.Script
}

func newTaker(client redis.UniversalClient) taker {
	return taker{client: client, script: redis.NewScript(takeScript)}
}

// taken is a task that was taken. Task is nil where asynq's message can't be read.
type taken struct {
	id   string
	task *asynq.Task
}

// take takes at most so many tasks of a queue in which at least from are pending. Asynq delivers them after net, unless they are delayed or woken.
func (t taker) take(ctx context.Context, queue string, most, from int, net time.Duration) ([]taken, error) {
	prefix := "asynq:{" + queue + "}:"
	keys := []string{prefix + "pending", prefix + "paused", prefix + "scheduled"}
	answer, err := t.script.Run(ctx, t.client, keys, prefix+"t:", most, from, int64(net.Seconds()), passMost).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("take tasks of queue %s: %w", queue, err)
	}
	all := make([]taken, 0, len(answer)/2)
	for i := 0; i+1 < len(answer); i += 2 {
		task, _ := decodeMessage([]byte(answer[i+1])) // who delivers it sees what is wrong
		all = append(all, taken{id: answer[i], task: task})
	}
	return all, nil
}

// delay has asynq deliver the tasks no sooner than at these times, by ID. A task that is not scheduled any more is left alone.
func (t taker) delay(ctx context.Context, queue string, at map[string]time.Time) error {
	if len(at) == 0 {
		return nil
	}
	members := make([]redis.Z, 0, len(at))
	for id, moment := range at {
		members = append(members, redis.Z{Score: float64(moment.Unix() + 1), Member: id})
	}
	if err := t.client.ZAddXX(ctx, "asynq:{"+queue+"}:scheduled", members...).Err(); err != nil {
		return fmt.Errorf("delay tasks of queue %s: %w", queue, err)
	}
	return nil
}

// The numbers of the fields of asynq's message (TaskMessage in its protocol buffers) that make a task.
const (
	messageType    = 1
	messagePayload = 2
	messageHeaders = 15
	headerKey      = 1
	headerValue    = 2
)

var errMessage = errors.New("not a message of asynq's")

// decodeMessage reads a task from asynq's message.
func decodeMessage(message []byte) (*asynq.Task, error) {
	var name string
	var payload []byte
	headers := map[string]string{}
	err := eachField(message, func(field int, value []byte) error {
		switch field {
		case messageType:
			name = string(value)
		case messagePayload:
			payload = value
		case messageHeaders:
			var k, v string
			if err := eachField(value, func(part int, text []byte) error {
				switch part {
				case headerKey:
					k = string(text)
				case headerValue:
					v = string(text)
				}
				return nil
			}); err != nil {
				return err
			}
			headers[k] = v
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return asynq.NewTaskWithHeaders(name, payload, headers), nil
}

// eachField calls f for each field of the message that has a length: texts, bytes and messages.
func eachField(message []byte, f func(int, []byte) error) error {
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return errMessage
		}
		message = message[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(field, kind, message); n < 0 {
				return errMessage
			}
			message = message[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(message)
		if n < 0 {
			return errMessage
		}
		if err := f(int(field), value); err != nil {
			return err
		}
		message = message[n:]
	}
	return nil
}
