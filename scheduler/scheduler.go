package scheduler

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"

	"github.com/headway-go/headway/internal/calls/roundtrip"
	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/reservations"
)

type holder = inside.Holder[*dispatcher.Dispatcher]

// Scheduler decides when a task runs: it enqueues tasks, lets them wait for their limits, and promotes them when
// their tokens are there. Safe for concurrent use.
type Scheduler struct {
	holder // of the dispatcher, for Headway's own packages

	config     Config
	recurring  []*recurrence
	tracer     trace.Tracer
	limiter    *reservations.Limiter // nil: nothing is reserved or checked
	client     *asynq.Client
	inspector  *asynq.Inspector
	queues     *asynqdb.DB
	list       *waitlist.Waitlist
	dispatcher *dispatcher.Dispatcher
	register   *register.Register

	started   atomic.Bool  // agreeing compares the stores
	compareAt atomic.Int64 // when compare does so again, in nanoseconds since 1970
}

// New returns a Scheduler on the Redis that asynq uses. Limiter may be nil: then charges are not checked at enqueue,
// and nothing can be reserved. A Scheduler enqueues and lets tasks wait at once; it promotes tasks after Start. The
// client is the caller's to close, after Stop. The error joins every fault of the config, each a
// *reservations.FieldError. A recurring task that the limiter could never serve is a *reservations.ChargeError.
func New(client redis.UniversalClient, limiter *reservations.Limiter, config Config) (*Scheduler, error) {
	recurring, err := config.check()
	if client == nil {
		err = errors.Join(&reservations.FieldError{Field: "client", Problem: "must not be nil"}, err)
	}
	if err == nil && limiter != nil {
		err = neverServed(recurring, limiter)
	}
	if err != nil {
		return nil, invalidConfig(err)
	}
	config = config.withDefaults()
	s := &Scheduler{
		config: config, recurring: recurring, limiter: limiter, tracer: config.tracer(),
		list: waitlist.New(client), queues: asynqdb.New(client),
		client:     asynq.NewClientFromRedisClient(asynqdb.ForClient(roundtrip.Share(client))),
		inspector:  asynq.NewInspectorFromRedisClient(client),
		dispatcher: dispatcher.New(client, limiter, config.Delivery, config.Logger),
		register:   register.New(client),
	}
	s.holder = inside.Hold(s.dispatcher)
	s.dispatcher.Loops = append(s.dispatcher.Loops, s.recur, s.agreeing)
	return s, nil
}

// Start lets the scheduler promote tasks, this process's and others', until Stop: one scheduler of the fleet is on
// duty at a time. It also enqueues the tasks of Config.Recurring. Starting twice does nothing. Of ctx only the values
// are kept.
//
// Start compares the store of the limiter with the store of the fleet, as far as both answer within 2 seconds. The
// error matches ErrSplit if these are two; then nothing was started. If the store or Redis does not answer, Start
// returns without an error, and the scheduler repeats the comparison; if it fails then, no limited task starts here.
func (s *Scheduler) Start(ctx context.Context) error {
	if s.limiter != nil {
		if err := s.agree(ctx); errors.Is(err, ErrSplit) {
			return err
		}
	}
	s.started.Store(true)
	s.dispatcher.Start(ctx)
	return nil
}

// Stop ends the promoting and waits for what is under way. It ends the waits of direct callers with ErrStopped, and
// sends the last answers of buckets to the fleet. When ctx ends first, what is under way is aborted; nothing is lost
// by that, another scheduler goes on. Stopping twice, or without Start, is fine; a stopped scheduler can be started
// again.
func (s *Scheduler) Stop(ctx context.Context) error {
	s.started.Store(false)
	return s.dispatcher.Stop(ctx)
}
