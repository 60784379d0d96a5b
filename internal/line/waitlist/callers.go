package waitlist

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Callers are entries of the waitlists that are not tasks of asynq: goroutines of a process that wait for their turn.
// A caller is a Task of QueueCallers. Its process renews a sign of life and subscribes to a channel of its own. A
// message on the channel promotes its callers. Beside the keys of preamble.lua:
//
//	caller:PROCESS     string with an expiry: the process lives
//	kept:CALL          hash with an expiry: the places of a caller, for the retry of its call, as in task:TASK; owner, if
//	                   the caller still waits
//
// and the channel "call:PROCESS": the numbers of promoted callers, separated by spaces.

// QueueCallers is the queue of all callers. No queue of asynq should have this name.
const QueueCallers = "headway:callers"

// Caller is the name of one caller. The name of its process must contain no space and no slash.
func Caller(process, number string) Task {
	return Task{Queue: QueueCallers, ID: process + "/" + number}
}

// Process returns the process of a caller, and the number of the caller in it. For any other task, ok is false.
func (t Task) Process() (process, number string, ok bool) {
	if t.Queue != QueueCallers {
		return "", "", false
	}
	return strings.Cut(t.ID, "/")
}

// Live renews the sign of life of a process until the expiry has passed. Missed is true if the last sign of life had
// expired: the dispatcher may have removed its callers.
func (w *Waitlist) Live(ctx context.Context, process string, expiry time.Duration) (missed bool, err error) {
	key := root + "caller:" + process
	found, err := w.client.PExpire(ctx, key, expiry).Result()
	if err == nil && !found {
		err = w.client.Set(ctx, key, "1", expiry).Err()
	}
	if err != nil {
		return false, fmt.Errorf("show a sign of life: %w", err)
	}
	return !found, nil
}

// recordFor is how long the record of a caller is kept that has not joined yet.
const recordFor = time.Minute

// Keep stores the places of a caller under the name of its call, for a while: Resume gives them to the caller of a
// retry. Leaves says that the caller leaves. If it does not, its places count once its process shows no sign of life.
func (w *Waitlist) Keep(ctx context.Context, caller Task, call string, leaves bool, expiry time.Duration) error {
	return w.run(ctx, "keep the place of a caller", w.scripts.keep, args{
		"task": caller.String(), "call": call, "leaves": leaves, "expiry": expiry.Milliseconds(),
	}, nil)
}

// Resume gives a caller that has not joined yet the places that are stored for its call, once. Join then puts it into
// its place.
func (w *Waitlist) Resume(ctx context.Context, caller Task, call string) (resumed bool, err error) {
	var answer struct{ Resumed bool }
	err = w.run(ctx, "resume the place of a caller", w.scripts.resume, args{
		"task": caller.String(), "call": call, "expiry": recordFor.Milliseconds(),
	}, &answer)
	return answer.Resumed, err
}

// Dead returns the processes whose signs of life have expired.
func (w *Waitlist) Dead(ctx context.Context, processes []string) (map[string]bool, error) {
	if len(processes) == 0 {
		return nil, nil
	}
	keys := make([]string, len(processes))
	for i, process := range processes {
		keys[i] = root + "caller:" + process
	}
	found, err := w.client.MGet(ctx, keys...).Result()
	if err != nil {
		return nil, fmt.Errorf("look for signs of life: %w", err)
	}
	dead := map[string]bool{}
	for i, process := range processes {
		if found[i] == nil {
			dead[process] = true
		}
	}
	return dead, nil
}

// Call sends promoted callers to their processes, in their order. If a message is lost, the caller is promoted again
// later, and Call sends it again.
func (w *Waitlist) Call(ctx context.Context, callers []Task) error {
	numbers := map[string][]string{}
	for _, t := range callers {
		if process, number, ok := t.Process(); ok {
			numbers[process] = append(numbers[process], number)
		}
	}
	_, err := w.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for process, of := range numbers {
			p.Publish(ctx, root+"call:"+process, strings.Join(of, " "))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("call promoted callers: %w", err)
	}
	return nil
}

// ListenCalls calls promoted with the number of each promoted caller of the process, from one goroutine. It
// subscribes to the channel of the process before it returns. A message that was sent before that is lost, and
// repeated. Otherwise it works like Listen.
func (w *Waitlist) ListenCalls(ctx context.Context, process string, promoted func(number string)) (stop func()) {
	channel := "call:" + process
	messages := w.client.Subscribe(ctx, root+channel) // receive meets the same error
	return receive(ctx, messages, channel, func(message string) {
		for number := range strings.FieldsSeq(message) {
			promoted(number)
		}
	})
}
