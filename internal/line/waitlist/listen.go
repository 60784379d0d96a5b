package waitlist

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/calls/pause"
)

// listenPause is how soon Listen subscribes again after an error.
const listenPause = time.Second

// Listen calls look, from one goroutine, when the next look becomes due earlier than before: in d. A negative d means
// that the last dispatcher has resigned. A process that is not on duty ignores any other d. Listen returns at once.
// Messages can be lost, so the dispatcher also looks after Look.Rest. Stop ends the goroutine and waits for it.
func (w *Waitlist) Listen(ctx context.Context, look func(d time.Duration)) (stop func()) {
	messages := w.client.Subscribe(ctx) // subscribes to no channel yet, because that waits for Redis
	return receive(ctx, messages, "wake", func(message string) {
		if us, err := strconv.ParseInt(message, 10, 64); err == nil {
			look(time.Duration(us) * time.Microsecond)
		}
	})
}

// receive calls received, from one goroutine, with each message of the channel, until stop.
func receive(
	ctx context.Context, messages *redis.PubSub, channel string, received func(message string),
) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = messages.Subscribe(ctx, root+channel) // ReceiveMessage repeats it after an error
		for ctx.Err() == nil {
			m, err := messages.ReceiveMessage(ctx)
			if err != nil { // Redis is down
				_ = pause.For(ctx, listenPause)
				continue
			}
			received(m.Payload)
		}
	}()
	return func() {
		cancel()
		_ = messages.Close() // ends the reading
		<-done
	}
}
