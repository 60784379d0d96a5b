package worker

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

const (
	// clocksApart is how far this machine's clock may differ from Redis's. asynq counts leases, delays and retries by
	// the clocks of workers.
	clocksApart = 3 * time.Second
	// clockAhead is how far this machine's clock may be ahead of Redis's before the worker leaves the forwarding of
	// scheduled tasks to others.
	clockAhead = 5 * time.Second
	// forwardNever means no forwarding.
	forwardNever = 100 * 365 * 24 * time.Hour
	// clockTimeout bounds the look at Redis's clock.
	clockTimeout = 2 * time.Second
)

// clocks compares this machine's clock with Redis's.
type clocks struct {
	ahead   func(context.Context) (time.Duration, error) // how far this machine's clock is ahead of Redis's
	servers func() ([]*asynq.ServerInfo, error)          // asynq's servers that live
	host    string                                       // this machine, as asynq names it
	log     *slog.Logger
}

func newClocks(client redis.UniversalClient, log *slog.Logger) clocks {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host" // as asynq does
	}
	return clocks{
		ahead: aheadOf(client), servers: asynq.NewInspectorFromRedisClient(client).Servers, host: host, log: log,
	}
}

// forwardEvery returns how often asynq's forwarder may look for scheduled tasks, and logs a warning if the clocks
// differ. A forwarder whose clock is ahead delivers tasks too early. It is switched off if workers of other machines
// serve the same queues; otherwise nothing would deliver scheduled tasks. If Redis does not answer, the interval
// stays as it is.
func (c clocks) forwardEvery(ctx context.Context, queues map[string]int, every time.Duration) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, clockTimeout)
	defer cancel()
	ahead, err := c.ahead(ctx)
	if err != nil || ahead.Abs() <= clocksApart {
		return every
	}
	const text = "this machine's clock differs from Redis's: asynq counts leases, delays and retries by it; synchronize it"
	log := c.log.With(slog.Duration("ahead", ahead.Round(time.Millisecond)))
	switch {
	case ahead <= clockAhead:
		log.WarnContext(ctx, text)
	case c.servedElsewhere(queues):
		log.WarnContext(ctx, text+". Until a restart, scheduled tasks are left to the workers of other machines")
		return forwardNever
	default:
		log.WarnContext(ctx, text+". No worker of another machine serves all these queues, so scheduled tasks come early")
	}
	return every
}

// aheadOf asks how far this machine's clock is ahead of Redis's. The answer is exact to half of the round trip.
func aheadOf(client redis.UniversalClient) func(context.Context) (time.Duration, error) {
	return func(ctx context.Context) (time.Duration, error) {
		asked := time.Now()
		there, err := client.Time(ctx).Result()
		if err != nil {
			return 0, err
		}
		return asked.Add(time.Since(asked) / 2).Sub(there), nil
	}
}

// servedElsewhere says whether workers of other machines take from each of the queues.
func (c clocks) servedElsewhere(queues map[string]int) bool {
	servers, err := c.servers()
	if err != nil {
		return false
	}
	for queue := range queues {
		elsewhere := func(s *asynq.ServerInfo) bool {
			_, takes := s.Queues[queue]
			return takes && s.Host != c.host && s.Status == "active"
		}
		if !slices.ContainsFunc(servers, elsewhere) {
			return false
		}
	}
	return true
}
