package waitlist

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/pause"
)

// listenPause is how soon Listen subscribes again after an error.
const listenPause = time.Second

// Listen calls look, from one goroutine, if a look is due earlier than before: in d. A negative d means that no process is on duty any
// more; processes that are not on duty need not look otherwise. It returns at once. Messages
// can be lost, so the dispatcher also looks after Look.Rest. The stop function ends the listening and waits for it.
func (w *Waitlist) Listen(ctx context.Context, look func(d time.Duration)) (stop func()) {
	messages := w.client.Subscribe(ctx) // to nothing yet: that would wait for Redis
	return receive(ctx, messages, "wake", func(message string) {
		if us, err := strconv.ParseInt(message, 10, 64); err == nil {
			look(time.Duration(us) * time.Microsecond)
		}
	})
}

// receive calls heard, from one goroutine, with each message of the channel, until stop.
func receive(
	ctx context.Context, messages *redis.PubSub, channel string, heard func(message string),
) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := messages.Subscribe(ctx, root+channel)
		for ctx.Err() == nil {
			var m *redis.Message
			if err == nil {
				m, err = messages.ReceiveMessage(ctx)
			}
			if err != nil { // Redis is away: all else fails too
				_ = pause.For(ctx, listenPause)
				err = nil
				continue
			}
			heard(m.Payload)
		}
	}()
	return func() {
		cancel()
		_ = messages.Close() // ends the reading
		<-done
	}
}
