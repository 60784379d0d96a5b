package headwaytest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/headway-go/headway/internal/documents/packed"
	"github.com/headway-go/headway/internal/products/embedded"
	"github.com/headway-go/headway/internal/test/network"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/scheduler"
)

const (
	// poolSize is more connections than a process needs: go-redis keeps the timers of callers that wait for a connection
	// for the whole program, and a timer belongs to one bubble.
	poolSize = 10_000
	// settling is more than a second: go-redis tries to dial once a second until it sees that its pool is closed.
	settling = 10 * time.Second
	// stopWithin bounds the stop of a worker at the end of a test.
	stopWithin = 2 * time.Minute
)

// Run calls play with a fleet in virtual time: all sleeps, timeouts and schedules of play, of the workers and of their
// handlers take no real time. It ends when play returns, and then stops the workers. With -v, Run logs the report.
//
// Play runs in a bubble of testing/synctest: it must not wait for sockets, processes, mutexes that are held while time
// passes, or channels from outside. If that stops virtual time for half a minute, the test fails and names the
// goroutines. Use [Fleet.Context] in place of t.Context. A play that calls t.Fatal or t.Skip ends the test so; in a
// function of [Fleet.At], the play ends at its next [Fleet.Run] or [Fleet.Drain].
//
// Handlers that have not returned after two minutes, and goroutines that they leave behind, fail the test. They remain
// until the end of the program, without virtual time.
func Run(t *testing.T, play func(f *Fleet), options ...Option) {
	t.Helper()
	if bubbleOf(stack(false)) != "" {
		t.Fatal("headwaytest: Run is called within a play or a bubble of testing/synctest: call it outside of both")
	}
	s := settingsOf(t, play, options)
	tr, err := newTrace()
	if err != nil {
		t.Fatalf("headwaytest: %v", err)
	}
	defer tr.close(t)
	packed.Prepare()
	b := &bubble{t: t}
	b.run(func() {
		f := newFleet(b, s, tr)
		f.play(play)
		f.close()
	})
}

// play runs the play in a goroutine of its own, which t.Fatal may end.
func (f *Fleet) play(play func(f *Fleet)) {
	played := make(chan struct{})
	go func() {
		defer close(played)
		f.guarded("play", func() {
			f.produce()
			play(f)
		})
	}()
	<-played
}

// newFleet returns a fleet without workers.
func newFleet(b *bubble, s settings, tr *trace) *Fleet {
	logging.Disable()               // go-redis reports each dial that fails on the standard error, for the whole program
	time.Sleep(time.Until(s.begin)) // a bubble begins in the year 2000
	f := &Fleet{
		t: b.t, bubble: b, settings: s, began: time.Now(), server: embedded.New(), shared: memstore.New(), trace: tr,
		apis: map[string]*API{}, full: make(chan struct{}), ended: make(chan struct{}), aborted: make(chan struct{}),
	}
	tr.begin(b.t.Name(), f.began)
	f.faults.ended = map[string]time.Time{}
	f.observer = connect(network.New(network.NewConditions(0, 0, 0, 0), f.server.Serve))
	steps := f.server.Commands
	b.steps.Store(&steps)
	f.background.Go(f.tick)
	f.fill, f.abort = sync.OnceFunc(func() { close(f.full) }), sync.OnceFunc(func() { close(f.aborted) })
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.tasks = newTracker(f)
	f.Redis = &Service{fleet: f, name: "Fleet.Redis", fault: fault{redis: true}}
	f.Store = &Service{fleet: f, name: "Fleet.Store", fault: fault{store: true}}
	return f
}

// produce makes the producer.
func (f *Fleet) produce() {
	var err error
	if f.producer, err = f.newProcess("producer"); err != nil {
		f.fatalf("%v", err)
	}
	c := scheduler.Config{Logger: f.logger("producer")}
	if f.scheduler, err = scheduler.New(f.producer.client, f.producer.Limiter, c); err != nil {
		f.fatalf("%v", err)
	}
}

// tick shows the watchdog that virtual time passes.
func (f *Fleet) tick() {
	for sleepUntil(time.Now().Add(time.Second), f.ended) {
		f.bubble.elapsed.Store(int64(f.Elapsed()))
	}
}

// connect returns a Redis client of one process.
func connect(w *network.Wire) *redis.Client {
	return redis.NewClient(&redis.Options{
		// A host name would be looked up, through a channel of package net that belongs to the first bubble.
		Addr: "127.0.0.1:6379", Dialer: w.Dial, PoolSize: poolSize,
		DisableIdentity:          true, // the first answer is the whole greeting, see network.Wire
		DialerRetries:            1,    // between tries go-redis sleeps, and its PubSub holds a mutex meanwhile
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}
