package waitlist

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// listenPause is how soon Listen subscribes again after an error.
const listenPause = time.Second

// Listen calls look, from one goroutine, if a look is due earlier than before: in d. A negative d means that no process is on duty any
// more; processes that are not on duty need not look otherwise. It returns at once. Messages
// can be lost, so the dispatcher also looks after Look.Rest. The stop function ends the listening and waits for it.
func (w *Waitlist) Listen(ctx context.Context, look func(d time.Duration)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	messages := w.client.Subscribe(ctx) // to nothing yet: that would wait for Redis
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := messages.Subscribe(ctx, root+"wake")
		for ctx.Err() == nil {
			if err == nil {
				err = receive(ctx, messages, look)
			}
			if err != nil { // Redis is away: the looks fail too
				pause(ctx, listenPause)
				err = nil
			}
		}
	}()
	return func() {
		cancel()
		_ = messages.Close() // ends the reading
		<-done
	}
}

// receive waits for one message.
func receive(ctx context.Context, messages *redis.PubSub, look func(d time.Duration)) error {
	m, err := messages.ReceiveMessage(ctx)
	if err != nil {
		return fmt.Errorf("listen for looks: %w", err)
	}
	if us, err := strconv.ParseInt(m.Payload, 10, 64); err == nil {
		look(time.Duration(us) * time.Microsecond)
	}
	return nil
}

// pause waits, but no longer than ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
