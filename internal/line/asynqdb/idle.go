package asynqdb

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/calls/pause"
)

const (
	// NetDefault is how long an idle server waits for a message until it looks again. It is the mean time between two
	// looks of an asynq server as it comes: so long waits a task of a client that sends no message.
	NetDefault = time.Second
	// idleMost is how long one dequeue waits: its lease counts from its beginning.
	idleMost = 5 * time.Second
	// listenPause is how soon Listen subscribes again after an error.
	listenPause = time.Second
	// pendingChannel and the ID of an idle server are the channel of its messages. A message is the key of a pending
	// list.
	pendingChannel = "headway:pending:"
)

// idle is what a server knows of its queues while they are empty. Safe for concurrent use.
type idle struct {
	queues map[string]bool // asynq's keys of their pending lists

	mu        sync.Mutex // guards what is below
	listening bool       // messages are received
	messages  int
	news      chan struct{}   // closed by the next message
	empty     map[string]bool // queues in which the server is idle, and of which no message came since
	until     time.Time       // when they are looked at again
}

func newIdle(queues []string) *idle {
	i := &idle{queues: map[string]bool{}, news: make(chan struct{}), empty: map[string]bool{}}
	for _, queue := range queues {
		i.queues[keysOf(queue).pending()] = true
	}
	return i
}

// noticed ends the wait: there is a message, or messages may have been lost.
func (i *idle) noticed(listening bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.listening = listening
	i.messages++
	close(i.news)
	i.news = make(chan struct{})
	clear(i.empty)
}

// messageCount returns the number of messages, for found.
func (i *idle) messageCount() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.messages
}

// found notes the answer of a queue that was asked after that many messages: whether the server is idle there.
func (i *idle) found(pending string, messages int, idle bool, net time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if delete(i.empty, pending); !idle || messages != i.messages {
		return
	}
	if len(i.empty) == 0 {
		i.until = time.Now().Add(net)
	}
	i.empty[pending] = true
}

// wait returns true when a queue has to be asked: at once unless all are known to be empty, else after a message, when
// the net is over, or when stopping is closed. It returns false after idleMost.
func (i *idle) wait(stopping <-chan struct{}) (ask bool) {
	i.mu.Lock()
	news, left := i.news, time.Until(i.until)
	if !i.listening || len(i.queues) == 0 || len(i.empty) < len(i.queues) || left <= 0 {
		if left <= 0 {
			clear(i.empty)
		}
		i.mu.Unlock()
		return true
	}
	i.mu.Unlock()
	timer := time.NewTimer(min(left, idleMost))
	defer timer.Stop()
	select {
	case <-news:
		return true
	case <-stopping:
		return true
	case <-timer.C:
	}
	if left > idleMost {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	clear(i.empty)
	return true
}

// Listen receives messages about pending tasks until stop. Meanwhile a server that is idle in all its queues does not
// poll: its dequeue waits for a message of [DB.Wake], of a client of [ForClient], or of another server. Each task wakes
// one idle server of the fleet. A server that can't take it passes the message on. It looks for tasks of other clients
// after ServerConfig.Net. While Redis is away it polls. Listen returns at once; stop ends the goroutine and waits for
// it.
func (s *Server) Listen(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	messages := s.Subscribe(ctx) // subscribes to no channel yet, because that waits for Redis
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer s.idle.noticed(false)
		_ = messages.Subscribe(ctx, pendingChannel+s.id) // Receive repeats it after an error
		for ctx.Err() == nil {
			received, err := messages.Receive(ctx)
			if err != nil { // Redis is down
				s.idle.noticed(false)
				_ = pause.For(ctx, listenPause)
				continue
			}
			switch m := received.(type) {
			case *redis.Subscription:
				s.idle.noticed(true)
			case *redis.Message:
				if s.free() == 0 {
					s.announce(ctx, m.Payload, 1)
				}
				s.idle.noticed(true)
			}
		}
	}()
	return func() {
		cancel()
		_ = messages.Close() // ends the reading
		<-done
	}
}

// announce wakes idle servers for n pending tasks. If it fails, they find the tasks when they look again.
func (s *Server) announce(ctx context.Context, pending string, n int) {
	_ = s.passOn.Run(ctx, s.UniversalClient, []string{pending}, n).Err()
}

// due reports whether a script that makes delayed tasks pending finds one: for an idle server, one command instead of
// two.
func (s *Server) due(ctx context.Context, forward script) bool {
	first, err := s.ZRangeWithScores(ctx, forward.keys[0], 0, 0).Result()
	now, _ := forward.args[0].(int64)
	return err != nil || len(first) > 0 && first[0].Score <= float64(now)
}

// forwarded announces the tasks that the script has made pending.
func (s *Server) forwarded(ctx context.Context, forward script, answer *redis.Cmd) *redis.Cmd {
	if n, err := answer.Int(); err == nil && n > 0 {
		s.announce(ctx, forward.keys[1], n)
	}
	return answer
}

// isForward reports whether the script is asynq's that makes delayed tasks of a queue pending.
func (c script) isForward() bool {
	return len(c.keys) == 2 && len(c.args) == 4 && strings.HasSuffix(c.keys[1], ":pending")
}

// isRequeue reports whether the script is asynq's that puts the task of a stopping server back.
func (c script) isRequeue() bool {
	return len(c.keys) == 4 && len(c.args) == 1 && strings.HasSuffix(c.keys[2], ":pending")
}
