package engine

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/asynqdb"
	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/coalesce"
	"github.com/headway-go/headway/internal/seldom"
	"github.com/headway-go/headway/internal/waitlist"
	"github.com/headway-go/headway/reservations"
)

const (
	// gatherFor is how long a task that was delivered waits for other tasks to share a script with.
	gatherFor = 500 * time.Microsecond
	// AfterTimeout bounds what is done for tasks that were sent already, whatever became of the caller's context.
	AfterTimeout = 10 * time.Second
	// DeliveryMost leaves the time between two looks of what a task may hold.
	DeliveryMost = bucket.Hold - 2*lookEvery
)

// Engine holds the waiting tasks of a fleet, together with the engines of its other processes. Safe for concurrent use.
type Engine struct {
	// Promoted is called with the tasks that were promoted, for tests. May be nil; set before Start.
	Promoted func([]waitlist.Task)
	// Loops run beside the dispatcher, from Start to Stop. Set before Start.
	Loops []func(context.Context)

	delivery  time.Duration // how long before its time a task is promoted
	log       *slog.Logger
	limiter   *reservations.Limiter // nil: nothing is reserved or checked
	redis     redis.UniversalClient
	inspector *asynq.Inspector
	queues    *asynqdb.DB
	list      *waitlist.Waitlist
	report    *reporter
	faults    faults
	arrivals  coalesce.Group[struct{}, waitlist.Arrival, waitlist.Arrived]
	joins     coalesce.Group[struct{}, waitlist.Entry, reservations.Tokens]
	callers   *callers
	unfreed   seldom.Warning // warnings of reservations that were not given back

	background sync.WaitGroup

	turn chan struct{} // holds one: one Start or Stop at a time; guards stop
	stop func()        // ends the dispatcher and waits; nil when none runs
}

// New returns an Engine on the Redis that asynq uses. Limiter may be nil. Delivery is how long before its time a task
// is promoted: zero to DeliveryMost.
func New(
	client redis.UniversalClient, limiter *reservations.Limiter, delivery time.Duration, log *slog.Logger,
) *Engine {
	list := waitlist.New(client)
	s := &Engine{
		delivery: delivery, log: log, limiter: limiter, redis: client, list: list,
		queues:    asynqdb.New(client),
		inspector: asynq.NewInspectorFromRedisClient(client), report: newReporter(list, log),
		turn: make(chan struct{}, 1),
	}
	s.arrivals.Gather = gatherFor
	s.arrivals.Call = func(ctx context.Context, _ struct{}, all []waitlist.Arrival) ([]waitlist.Arrived, error) {
		return s.list.Arrive(ctx, all)
	}
	s.joins.Call = s.joinAll
	s.callers = newCallers(s)
	return s
}

// Start lets the engine promote tasks until Stop. Of ctx only the values are kept. Starting twice does nothing.
func (s *Engine) Start(ctx context.Context) {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	if s.stop != nil {
		return
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var loops sync.WaitGroup
	for _, loop := range append(slices.Clone(s.Loops), newDispatcher(s).run) {
		loops.Go(func() { loop(running) })
	}
	s.stop = func() {
		cancel()
		loops.Wait()
	}
}

// Stop ends the promoting and waits for what is under way. It ends the waits of direct callers with ErrStopped, and
// sends the answers that Changed and Begun left until ctx ends. A stopped engine can be started again.
func (s *Engine) Stop(ctx context.Context) error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
	s.callers.close()
	s.background.Wait()
	if err := s.report.close(ctx); err != nil {
		return fmt.Errorf("stop the scheduler: %w", err)
	}
	return nil
}
