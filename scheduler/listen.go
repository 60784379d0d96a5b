package scheduler

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// listenPause is how soon the waker listens again after an error.
const listenPause = time.Second

// listen has the waker look sooner where scripts of other processes say so: those that only enqueue have no waker to look. News that
// are lost cost a task at most restMost. It returns at once; deaf ends it and waits.
func (w *waker) listen(ctx context.Context) (deaf func()) {
	ctx, cancel := context.WithCancel(ctx)
	news := w.lines.client.Subscribe(ctx) // to nothing yet: that would wait for Redis
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := news.Subscribe(ctx, root+"sooner")
		for ctx.Err() == nil {
			if err == nil {
				err = w.hear(ctx, news)
			}
			if err != nil { // Redis is away; the looks say so
				rest(ctx, listenPause)
				err = nil
			}
		}
	}()
	return func() {
		cancel()
		_ = news.Close() // ends the reading
		<-done
	}
}

// hear waits for one message.
func (w *waker) hear(ctx context.Context, news *redis.PubSub) error {
	m, err := news.ReceiveMessage(ctx)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	duty, left, _ := strings.Cut(m.Payload, " ")
	if d, err := microseconds(left); err == nil && (duty == "" || duty == w.id) {
		w.bring(d)
	}
	return nil
}

// rest waits, but no longer than ctx.
func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
