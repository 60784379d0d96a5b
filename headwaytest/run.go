package headwaytest

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/headway-go/headway/internal/config"
	"github.com/headway-go/headway/internal/embedded"
	"github.com/headway-go/headway/internal/test/network"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/scheduler"
)

// Option changes how [Run] makes a fleet.
type Option func(t *testing.T, s *settings)

// settings is what options set.
type settings struct {
	limits  []reservations.Limit
	seed    uint64
	begin   time.Time
	least   time.Duration // of a network delay
	most    time.Duration
	inRedis bool
	log     slog.Handler
	picture string
}

// LimitsFile reads the limits from a headway.yaml.
func LimitsFile(name string) Option {
	return func(t *testing.T, s *settings) {
		t.Helper()
		c, err := config.Load(name)
		if err != nil {
			t.Fatalf("headwaytest: read the limits: %v", err)
		}
		s.limits = append(s.limits, c.Limits...)
	}
}

// Limits adds limits.
func Limits(limits ...reservations.Limit) Option {
	return func(_ *testing.T, s *settings) { s.limits = append(s.limits, limits...) }
}

// Seed is that of all random numbers of the fleet: arrivals, latencies, refusals, delays. Totals hardly differ between
// two runs with one seed; the order of events within some milliseconds may. Defaults to 1.
func Seed(seed uint64) Option {
	return func(_ *testing.T, s *settings) { s.seed = seed }
}

// Begin is the time at which the fleet starts, for daily windows and schedules. It must be after 2001. Defaults to
// Monday, 5 January 2026, 09:00 UTC.
func Begin(at time.Time) Option {
	return func(_ *testing.T, s *settings) { s.begin = at }
}

// Network delays each message between a process and Redis or the store of the buckets by a random time from least to
// most. Defaults to no delay.
func Network(least, most time.Duration) Option {
	return func(_ *testing.T, s *settings) { s.least, s.most = least, most }
}

// BucketsInRedis keeps the buckets in Redis. By default they are in a store of their own, as in MongoDB.
func BucketsInRedis() Option {
	return func(_ *testing.T, s *settings) { s.inRedis = true }
}

// Log sends the log of all workers to a handler. By default nothing is logged.
func Log(h slog.Handler) Option {
	return func(_ *testing.T, s *settings) { s.log = h }
}

// Picture writes the report of the fleet's end as an SVG picture.
func Picture(path string) Option {
	return func(_ *testing.T, s *settings) { s.picture = path }
}

const (
	// poolSize is more connections than a process needs: go-redis keeps the timers of callers that wait for a connection
	// for the whole program, and a timer belongs to one bubble.
	poolSize = 10_000
	// closing is more than a second: go-redis tries to dial once a second until it sees that its pool is closed.
	closing = 10 * time.Second
	// stopWithin bounds the stop of a worker at the end of a test.
	stopWithin = 2 * time.Minute
)

// Run calls play with a fleet in virtual time: all sleeps, timeouts and schedules of play, of the workers and of their
// handlers take no real time. It ends when play returns, and then stops the workers.
//
// Play runs in a bubble of testing/synctest: it must not wait for sockets, processes, or channels from outside. Use
// [Fleet.Context] in place of t.Context. With -v, Run logs the report.
func Run(t *testing.T, play func(f *Fleet), options ...Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := settings{seed: 1, begin: time.Date(2026, time.January, 5, 9, 0, 0, 0, time.UTC)}
		for _, o := range options {
			o(t, &s)
		}
		f := newFleet(t, s)
		defer f.close()
		play(f)
	})
}

// newFleet returns a fleet without workers.
func newFleet(t *testing.T, s settings) *Fleet {
	t.Helper()
	logging.Disable()               // go-redis reports each dial that fails on the standard error, for the whole program
	time.Sleep(time.Until(s.begin)) // a bubble begins in the year 2000
	f := &Fleet{
		t: t, settings: s, began: time.Now(), server: embedded.New(), shared: memstore.New(nil), apis: map[string]*API{},
		full: make(chan struct{}), ended: make(chan struct{}),
	}
	f.fill = sync.OnceFunc(func() { close(f.full) })
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.tasks = newTracker(f)
	f.Redis, f.Store = &Service{all: f.connections, set: wireOf}, &Service{all: f.connections, set: storeOf}
	var err error
	if f.producer, err = f.newProcess("producer"); err != nil {
		t.Fatalf("headwaytest: %v", err)
	}
	c := scheduler.Config{Logger: f.logger("producer")}
	if f.scheduler, err = scheduler.New(f.producer.client, f.producer.Limiter, c); err != nil {
		t.Fatalf("headwaytest: %v", err)
	}
	return f
}

// connect returns a Redis client of one process.
func connect(w *network.Wire) *redis.Client {
	return redis.NewClient(&redis.Options{
		// A host name would be looked up, through a channel of package net that belongs to the first bubble.
		Addr: "127.0.0.1:6379", Dialer: w.Dial, PoolSize: poolSize,
		DialerRetries:            1, // between tries go-redis sleeps, and its PubSub holds a mutex meanwhile
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}
