package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/roundtrip"
	"github.com/headway-go/headway/reservations"
)

// gatherFor is how long a task that was delivered waits for others to share a script with.
const gatherFor = 500 * time.Microsecond

// Scheduler decides when a task runs: it enqueues, sends tasks back until their time, and wakes them. Safe for concurrent use.
type Scheduler struct {
	config  Config
	limiter *reservations.Limiter // nil: nothing is reserved or checked
	client  *asynq.Client
	lines   lines
	waker   *waker
	taker   taker
	sorter  sorter
	heard   heard
	outage  outage
	recalls roundtrip.Together[Task, recalled]
	notes   roundtrip.Together[note, struct{}]
	unfreed seldom // warnings of places that were not given back

	mu     sync.Mutex         // guards what is below; held by Start and Stop only, all the way
	stop   chan struct{}      // closed to end the waker; nil when none runs
	done   chan struct{}      // closed when it has ended
	cancel context.CancelFunc // ends what the waker has under way
}

// New returns a Scheduler on the Redis that asynq uses. Limiter may be nil: then charges are not checked at enqueue, and nothing
// can be reserved. A Scheduler enqueues and sends back at once; it wakes tasks after Start. The client is the caller's to close, after Stop. The
// error joins every fault of the config and matches ErrInvalidConfig.
func New(client redis.UniversalClient, limiter *reservations.Limiter, config Config) (*Scheduler, error) {
	if client == nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidConfig, &reservations.FieldError{Field: "client", Problem: "must not be nil"})
	}
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	l := newLines(client)
	s := &Scheduler{
		config: config, limiter: limiter, client: asynq.NewClientFromRedisClient(roundtrip.Share(client)),
		lines: l, waker: newWaker(l, asynq.NewInspectorFromRedisClient(client), config), taker: newTaker(client),
	}
	s.share()
	return s, nil
}

// share lets those who ask at the same moment share a round trip.
func (s *Scheduler) share() {
	s.recalls.Call, s.notes.Call = s.lines.recallAll, s.keep
	s.recalls.Gather = gatherFor
}

// Start lets the scheduler wake tasks, this process's and others', until Stop. It returns at once, also while Redis can't be
// reached. Starting twice does nothing. Of ctx only the values are kept.
func (s *Scheduler) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop != nil {
		return nil
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop, done := make(chan struct{}), make(chan struct{})
	s.stop, s.done, s.cancel = stop, done, cancel
	s.sorter.open(running)
	var ending sync.WaitGroup
	ending.Go(func() {
		deaf := s.waker.listen(running)
		defer deaf()
		s.waker.run(running, stop)
	})
	if s.limiter != nil {
		ending.Go(func() { newAdvancer(s).run(running, stop) })
	}
	go func() {
		defer close(done)
		ending.Wait()
	}()
	return nil
}

// Stop ends the waking, waits for what is under way, and sends the movements that Moved left. When ctx ends first, what is
// under way is aborted; nothing is lost by that, the tasks concerned are woken by others two seconds later. Stopping twice, or
// without Start, is fine; a stopped scheduler can be started again.
func (s *Scheduler) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop == nil && !s.waker.owes() {
		return nil
	}
	var late error
	if s.stop != nil {
		close(s.stop)
		for _, done := range []<-chan struct{}{s.sorter.close(), s.done} {
			select {
			case <-done:
			case <-ctx.Done():
				late = ctx.Err()
				s.cancel()
				<-done
			}
		}
		s.cancel()
		s.stop, s.done, s.cancel = nil, nil, nil
	}
	if err := errors.Join(late, s.waker.leave(ctx)); err != nil {
		return fmt.Errorf("stop the scheduler: %w", err)
	}
	return nil
}
