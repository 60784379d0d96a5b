package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"

	"github.com/headway-go/headway/internal/asynqdb"
	"github.com/headway-go/headway/internal/coalesce"
	"github.com/headway-go/headway/internal/roundtrip"
	"github.com/headway-go/headway/internal/waitlist"
	"github.com/headway-go/headway/reservations"
)

const (
	// gatherFor is how long a task that was delivered waits for other tasks to share a script with.
	gatherFor = 500 * time.Microsecond
	// afterTimeout bounds what is done for tasks that were sent already, whatever became of the caller's context.
	afterTimeout = 10 * time.Second
)

// Scheduler decides when a task runs: it enqueues tasks, lets them wait for their limits, and promotes them when
// their tokens are there. Safe for concurrent use.
type Scheduler struct {
	config    Config
	recurring []*recurrence
	tracer    trace.Tracer
	limiter   *reservations.Limiter // nil: nothing is reserved or checked
	redis     redis.UniversalClient
	client    *asynq.Client
	inspector *asynq.Inspector
	queues    *asynqdb.DB
	list      *waitlist.Waitlist
	report    *reporter
	sorter    sorter
	faults    faults
	arrivals  coalesce.Group[struct{}, waitlist.Arrival, waitlist.Arrived]
	joins     coalesce.Group[struct{}, waitlist.Entry, reservations.Tokens]
	callers   *callers
	unfreed   seldom // warnings of reservations that were not given back

	background sync.WaitGroup
	// observe is called with the tasks that were promoted, for tests. May be nil.
	observe func([]waitlist.Task)

	mu   sync.Mutex // guards stop; held by Start and Stop only, all the way
	stop func()     // ends the dispatcher and waits; nil when none runs
}

// New returns a Scheduler on the Redis that asynq uses. Limiter may be nil: then charges are not checked at enqueue,
// and nothing can be reserved. A Scheduler enqueues and lets tasks wait at once; it promotes tasks after Start. The
// client is the caller's to close, after Stop. The error joins every fault of the config and matches
// ErrInvalidConfig.
func New(client redis.UniversalClient, limiter *reservations.Limiter, config Config) (*Scheduler, error) {
	if client == nil {
		fault := &reservations.FieldError{Field: "client", Problem: "must not be nil"}
		return nil, fmt.Errorf("%w: %w", ErrInvalidConfig, fault)
	}
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	recurring, err := recurrences(config.Recurring)
	if err != nil {
		return nil, err
	}
	list := waitlist.New(client)
	s := &Scheduler{
		config: config, recurring: recurring, limiter: limiter, redis: client, list: list, queues: asynqdb.New(client),
		client:    asynq.NewClientFromRedisClient(asynqdb.ForClient(roundtrip.Share(client))),
		inspector: asynq.NewInspectorFromRedisClient(client),
		report:    newReporter(list, config.Logger), tracer: config.tracer(),
	}
	s.arrivals.Gather = gatherFor
	s.arrivals.Call = func(ctx context.Context, _ struct{}, all []waitlist.Arrival) ([]waitlist.Arrived, error) {
		return s.list.Arrive(ctx, all)
	}
	s.joins.Call = s.joinAll
	s.callers = newCallers(s)
	return s, nil
}

// Start lets the scheduler promote tasks, this process's and others', until Stop: one scheduler of the fleet is on
// duty at a time. It also enqueues the tasks of Config.Recurring. It returns at once, also while Redis can't be
// reached. Starting twice does nothing. Of ctx only the values are kept.
func (s *Scheduler) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop != nil {
		return nil
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.sorter.open(running)
	var loops sync.WaitGroup
	loops.Go(func() { newDispatcher(s).run(running) })
	loops.Go(func() { s.recur(running, s.recurring) })
	s.stop = func() {
		cancel()
		loops.Wait()
	}
	return nil
}

// Stop ends the promoting and waits for what is under way. It ends the waits of direct callers with ErrStopped, and
// sends the answers that Changed and Begun left. When ctx ends first, what is under way is aborted; nothing is lost
// by that, another scheduler goes on. Stopping twice, or without Start, is fine; a stopped scheduler can be started
// again.
func (s *Scheduler) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var late error
	if s.stop != nil {
		sorted := s.sorter.close()
		select {
		case <-sorted:
		case <-ctx.Done():
			late = ctx.Err()
		}
		s.stop()
		<-sorted
		s.stop = nil
	}
	s.callers.close()
	s.background.Wait()
	if err := s.report.close(ctx); err != nil || late != nil {
		return fmt.Errorf("stop the scheduler: %w", errors.Join(late, err))
	}
	return nil
}
