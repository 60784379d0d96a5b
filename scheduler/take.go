package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/encoding/protowire"
)

// peekScript reads the tasks of one queue that asynq delivers next, where its list is long. It leaves out those that were woken, for their time has come, those
// that it read before and left, and those of a group; and all of a queue that is paused.
//
//	KEYS[1] -> asynq's list of pending tasks: workers take from its right
//	KEYS[2] -> there while the queue is paused
//	ARGV[1] -> where the keys of the queue's tasks begin
//	ARGV[2] -> the most tasks to look at
//	ARGV[3] -> how long the list is at least
//	ARGV[4] -> the most bytes of messages, but for the last one
//	ARGV[5] -> how many that were woken are passed at most
//
// Output: for each task its ID and asynq's message, the first to be delivered first.
const peekScript = countWoken + `
if redis.call("EXISTS", KEYS[2]) == 1 or redis.call("LLEN", KEYS[1]) < tonumber(ARGV[3]) then
	return {}
end
local n = before(tonumber(ARGV[5]))
local ids, answer, left = redis.call("LRANGE", KEYS[1], -n - tonumber(ARGV[2]), -n - 1), {}, tonumber(ARGV[4])
for i = #ids, 1, -1 do
	if left <= 0 then
		break
	end
	local t = redis.call("HMGET", ARGV[1] .. ids[i], "state", "msg", "group", "` + fieldWoken + `", "` + fieldLeft + `")
	if t[1] == "pending" and t[2] and (not t[3] or t[3] == "") and not t[4] and not t[5] then
		answer[#answer + 1] = ids[i]
		answer[#answer + 1] = t[2]
		left = left - #t[2]
	end
end
return answer
`

// takeScript takes tasks of one queue out of asynq's list of those that are delivered next, and puts them where tasks wait that were enqueued for later. Who was
// delivered or woken meanwhile is left. Other tasks it marks: they stay where they are, and nobody looks at them again.
//
//	KEYS[1] -> asynq's list of pending tasks
//	KEYS[2] -> asynq's set of scheduled tasks
//	ARGV[1] -> where the keys of the queue's tasks begin
//	ARGV[2] -> in how many seconds asynq delivers the tasks that are taken, should nothing else happen
//	ARGV[3] -> how many tasks to take
//	then their IDs, and those of the tasks to mark
//
// Output: the IDs of the tasks that were taken.
const takeScript = `
local at = tonumber(redis.call("TIME")[1]) + tonumber(ARGV[2])
local last, answer = 3 + tonumber(ARGV[3]), {}
for i = 4, #ARGV do
	local key = ARGV[1] .. ARGV[i]
	local t = redis.call("HMGET", key, "state", "` + fieldWoken + `")
	if t[1] == "pending" and not t[2] then
		if i > last then
			redis.call("HSET", key, "` + fieldLeft + `", 1)
		elseif redis.call("LREM", KEYS[1], -1, ARGV[i]) == 1 then
			redis.call("ZADD", KEYS[2], at, ARGV[i])
			redis.call("HSET", key, "state", "scheduled")
			redis.call("HDEL", key, "pending_since")
			answer[#answer + 1] = ARGV[i]
		end
	end
end
return answer
`

// delayScript has asynq deliver tasks of one queue later, as far as they are scheduled.
//
//	KEYS[1] -> asynq's set of scheduled tasks
//	ARGV[1] -> where the keys of the queue's tasks begin
//	then for each task its ID and when asynq delivers it, in seconds
//
// Output: the IDs of tasks that are not there any more.
const delayScript = `
local gone = {}
for i = 2, #ARGV, 2 do
	if redis.call("EXISTS", ARGV[1] .. ARGV[i]) == 0 then
		gone[#gone + 1] = ARGV[i]
	else
		redis.call("ZADD", KEYS[1], "XX", ARGV[i + 1], ARGV[i])
	end
end
return gone
`

// Our marks in asynq's hash of a task: both are given no time before they are delivered.
const (
	fieldWoken = "headway_woken" // it was woken, and stands before those that were not
	fieldLeft  = "headway_left"  // it has no limit, or a place: it stands where it did
)

// peekBytes is how much of messages is read at once, about: Redis does nothing else meanwhile.
const peekBytes = 4 << 20

// taker takes tasks that nobody was given yet. The keys are asynq's own and not part of its public interface, as those of rouser.
//
// Each script is one atomic change, and what is taken is asynq's to deliver all the time: who is killed between this and anything after it leaves the tasks where asynq
// delivers them a little later.
type taker struct {
	client                    redis.UniversalClient
	peeking, taking, delaying *redis.Script
}

func newTaker(client redis.UniversalClient) taker {
	return taker{client: client, peeking: redis.NewScript(peekScript), taking: redis.NewScript(takeScript), delaying: redis.NewScript(delayScript)}
}

// pendingTask is a task that is delivered soon. Task is nil where asynq's message can't be read.
type pendingTask struct {
	id   string
	task *asynq.Task
}

// peek reads at most so many tasks of a queue in which at least from are pending.
func (t taker) peek(ctx context.Context, queue string, most, from int) ([]pendingTask, error) {
	prefix := keysOf(queue)
	answer, err := t.peeking.Run(ctx, t.client, []string{prefix + "pending", prefix + "paused"}, prefix+"t:", most, from, peekBytes, passMost).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("read tasks of queue %s: %w", queue, err)
	}
	all := make([]pendingTask, 0, len(answer)/2)
	for i := 0; i+1 < len(answer); i += 2 {
		task, _ := decodeMessage([]byte(answer[i+1])) // who delivers it sees what is wrong
		all = append(all, pendingTask{id: answer[i], task: task})
	}
	return all, nil
}

// take takes these tasks, and returns the IDs of those that it has. Asynq delivers them after net, unless they are delayed or woken. Tasks to be left are not peeked at again.
func (t taker) take(ctx context.Context, queue string, wanted, left []string, net time.Duration) ([]string, error) {
	prefix := keysOf(queue)
	args := []any{prefix + "t:", int64(net.Seconds()), len(wanted)}
	for _, id := range slices.Concat(wanted, left) {
		args = append(args, id)
	}
	got, err := t.taking.Run(ctx, t.client, []string{prefix + "pending", prefix + "scheduled"}, args...).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("take tasks of queue %s: %w", queue, err)
	}
	return got, nil
}

// delay has asynq deliver the tasks no sooner than at these times, by ID, and returns those that asynq does not know any more. A task that is not scheduled any more is left alone.
func (t taker) delay(ctx context.Context, queue string, at map[string]time.Time) (gone []string, err error) {
	if len(at) == 0 {
		return nil, nil
	}
	prefix := keysOf(queue)
	args := []any{prefix + "t:"}
	for id, moment := range at {
		args = append(args, id, moment.Unix()+1)
	}
	if gone, err = t.delaying.Run(ctx, t.client, []string{prefix + "scheduled"}, args...).StringSlice(); err != nil {
		return nil, fmt.Errorf("delay tasks of queue %s: %w", queue, err)
	}
	return gone, nil
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
