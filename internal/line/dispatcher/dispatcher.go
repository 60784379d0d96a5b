package dispatcher

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/reservations"
)

const (
	// AfterTimeout bounds what is done for tasks that were sent already, whatever became of the caller's context.
	AfterTimeout = 10 * time.Second
	// DeliveryMost leaves the time between two looks of what a task may hold.
	DeliveryMost = bucket.Hold - 2*lookEvery
)

// Dispatcher holds the waiting tasks of a fleet, together with the dispatchers of its other processes. While it is on
// duty, it promotes them. Each of its parts has one job. Safe for concurrent use.
type Dispatcher struct {
	*shared
	*outages
	*arriver
	*waiter
	*sender
	*leaver
	*callers
	*refusals
	*viewer

	// Loops run beside the dispatcher, from Start to Stop. Set before Start.
	Loops []func(context.Context)

	delivery time.Duration // how long before its time a task is promoted

	turn chan struct{} // holds one: one Start or Stop at a time; guards stop
	stop func()        // ends the promoter and waits; nil when none runs
}

// New returns a Dispatcher on the Redis that asynq uses. Limiter may be nil. Delivery is how long before its time a
// task is promoted: zero to DeliveryMost.
func New(
	client redis.UniversalClient, limiter *reservations.Limiter, delivery time.Duration, log *slog.Logger,
) *Dispatcher {
	list, queues := waitlist.New(client), asynqdb.New(client)
	s := &shared{log: log, limiter: limiter, list: list, queues: queues, report: newReporter(list, log)}
	away := &outages{shared: s}
	waits := newWaiter(s, away)
	d := &Dispatcher{
		shared: s, outages: away, waiter: waits, arriver: newArriver(s), sender: &sender{waiter: waits},
		leaver:   &leaver{shared: s, inspector: asynq.NewInspectorFromRedisClient(client)},
		refusals: &refusals{redis: client}, viewer: &viewer{s},
		delivery: delivery, turn: make(chan struct{}, 1),
	}
	d.callers = newCallers(d)
	return d
}

// Start lets the dispatcher promote tasks until Stop. Of ctx only the values are kept. Starting twice does nothing.
func (d *Dispatcher) Start(ctx context.Context) {
	d.turn <- struct{}{}
	defer func() { <-d.turn }()
	if d.stop != nil {
		return
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var loops sync.WaitGroup
	for _, loop := range append(slices.Clone(d.Loops), newPromoter(d).run) {
		loops.Go(func() { loop(running) })
	}
	d.stop = func() {
		cancel()
		loops.Wait()
	}
}

// Stop ends the promoting and waits for what is under way. It ends the waits of direct callers with ErrStopped, and
// sends the answers that Changed and Begun left until ctx ends. A stopped dispatcher can be started again.
func (d *Dispatcher) Stop(ctx context.Context) error {
	d.turn <- struct{}{}
	defer func() { <-d.turn }()
	if d.stop != nil {
		d.stop()
		d.stop = nil
	}
	d.endCalls()
	d.background.Wait()
	if err := d.report.close(ctx); err != nil {
		return fmt.Errorf("stop the scheduler: %w", err)
	}
	return nil
}
