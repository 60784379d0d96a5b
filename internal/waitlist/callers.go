package waitlist

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Callers are places in the waitlists that no task of asynq has: goroutines of a process that wait for their turn. A
// caller is a Task of QueueCallers. Its process shows a sign of life, listens to its own channel, and is called there.
// Beside the keys of scripts.go:
//
//	caller:PROCESS     string with an expiry: the process lives
//
// and the channel "call:PROCESS": the numbers of callers, separated by spaces.

// QueueCallers is the queue of all callers. No queue of asynq should have this name.
const QueueCallers = "headway:callers"

// Caller is the name of one caller; the process may not contain a space or a slash.
func Caller(process, number string) Task {
	return Task{Queue: QueueCallers, ID: process + "/" + number}
}

// Process is the process of a caller, and its number there; not ok for any other task.
func (t Task) Process() (process, number string, ok bool) {
	if t.Queue != QueueCallers {
		return "", "", false
	}
	return strings.Cut(t.ID, "/")
}

// Live shows that a process lives for so long. Missed says that the last sign of life had expired: its callers may have
// been removed.
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

// Dead returns those of the processes that show no sign of life.
func (w *Waitlist) Dead(ctx context.Context, processes []string) (map[string]bool, error) {
	if len(processes) == 0 {
		return nil, nil
	}
	found := make([]*redis.IntCmd, len(processes))
	_, err := w.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, process := range processes {
			found[i] = p.Exists(ctx, root+"caller:"+process)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for signs of life: %w", err)
	}
	dead := map[string]bool{}
	for i, process := range processes {
		if found[i].Val() == 0 {
			dead[process] = true
		}
	}
	return dead, nil
}

// Call tells the processes of promoted callers, in their order. A call that is lost is repeated when the caller was
// promoted again.
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

// Hear calls called, from one goroutine, with the number of each caller of the process that is called. It asks
// Redis for the channel before it returns; a call that overtakes that is lost, and repeated. Otherwise it is as Listen.
func (w *Waitlist) Hear(ctx context.Context, process string, called func(number string)) (stop func()) {
	channel := "call:" + process
	messages := w.client.Subscribe(ctx, root+channel) // an error is that of receive
	return receive(ctx, messages, channel, func(message string) {
		for number := range strings.FieldsSeq(message) {
			called(number)
		}
	})
}
