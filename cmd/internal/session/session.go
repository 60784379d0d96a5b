// Package session connects a command to what it needs of a fleet: the queue, the buckets, the batches.
package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/products/explained"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/internal/setup/connect"
	"github.com/headway-go/headway/internal/setup/tracing"
	"github.com/headway-go/headway/internal/state"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
)

// closePatience bounds the end of a command.
const closePatience = 5 * time.Second

// Needs says what a command needs. The zero value is for commands that only look.
type Needs struct {
	// File names the file of the settings, for people. Load sets it; empty means the default one.
	File string
	// Queue is connected already, and stays the caller's. Nil connects to it.
	Queue redis.UniversalClient
	// Sends is for commands that change batches or enqueue: their traces are sent, and they name the fleet of
	// `headway dev` if they use it.
	Sends bool
	// NoBuckets leaves out the buckets: the Limiter only checks charges.
	NoBuckets bool
	// NoQueue is for commands that only read and change overrides: it leaves out the Queue and the Scheduler. Overrides
	// that can't be in force are no warnings.
	NoQueue bool
	// Batches adds the batches.
	Batches bool
	// Enforces is for commands that let calls start: they go by the limits of the file first, others by the limits of the
	// fleet first.
	Enforces bool
	// Mongo and Measure have the calls of MongoDB, of Redis and of the buckets measured. Nil measures none.
	Mongo   func(*options.ClientOptions)
	Measure func(redis.UniversalClient, *connect.Buckets)
}

// Session is what one command is connected to. Close it.
type Session struct {
	Config    config.Config           // with all limits that the command goes by
	Queue     redis.UniversalClient   // nil with Needs.NoQueue, as is Scheduler
	Buckets   *connect.Buckets        // nil with Needs.NoBuckets
	Overrides []reservations.Override // all that are stored; nil with Needs.NoBuckets
	Limiter   *reservations.Limiter
	Scheduler *scheduler.Scheduler
	Batches   *batches.Store // nil without Needs.Batches

	sources *sources
	naming  sync.Mutex // guards names
	names   func(ctx context.Context, flows []string) map[string]string

	closers []func(context.Context) error
}

// Load is Open with the settings of a file. Without the default file, the limits of the fleet are enough.
func Load(ctx context.Context, env cli.Environment, file string, needs Needs) (*Session, error) {
	c, err := config.Load(file)
	missing := FileMissing(err, file) && !needs.Enforces
	if err != nil && !missing {
		return nil, err
	}
	needs.File = file
	s, failed := Open(ctx, env, c, needs)
	switch {
	case missing && failed != nil:
		return nil, fmt.Errorf("%w; and the limits of live workers can't be read: %s", err, failed.Error())
	case missing && len(s.Config.Limits) == 0:
		s.Close(ctx)
		return nil, err
	}
	return s, failed
}

// Open connects to the services, and adds the limits that live workers have. Overrides that can't be read are warnings.
func Open(ctx context.Context, env cli.Environment, c config.Config, needs Needs) (_ *Session, err error) {
	s := &Session{Config: c, Queue: needs.Queue}
	defer func() {
		if err != nil {
			s.Close(ctx)
		}
	}()
	if s.Queue == nil && !needs.NoQueue {
		if needs.Sends && env.Getenv("REDIS_URL") == "" {
			if dev, lives := connect.FindDev(ctx, env.Getenv); lives {
				fmt.Fprintf(env.Err, "headway: to the fleet of `headway dev`, whose page is at %s\n", dev.Page)
			}
		}
		if s.Queue, err = connect.Redis(ctx, env.Getenv); err != nil {
			return nil, err
		}
		s.atEnd(func(context.Context) error { return s.Queue.Close() })
	}
	s.readSources(ctx, env, needs)
	if needs.NoBuckets {
		s.Limiter = s.Config.Checker()
	} else if err = s.openBuckets(ctx, env, needs); err != nil {
		return nil, err
	}
	if needs.Batches {
		if s.Batches, err = s.Buckets.Batches(ctx); err != nil {
			return nil, err
		}
	}
	if needs.NoQueue {
		return s, nil
	}
	logger := slog.New(slog.NewTextHandler(env.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if needs.Sends {
		var stop func()
		if stop, err = tracing.Start(ctx, "headway-enqueue", env.Getenv, logger); err != nil {
			return nil, err
		}
		s.atEnd(func(context.Context) error { stop(); return nil })
	}
	if s.Scheduler, err = scheduler.New(s.Queue, s.Limiter, scheduler.Config{Logger: logger}); err != nil {
		return nil, err
	}
	s.atEnd(s.Scheduler.Stop) // sends what gave places back
	return s, nil
}

func (s *Session) openBuckets(ctx context.Context, env cli.Environment, needs Needs) (err error) {
	var change []func(*options.ClientOptions)
	if needs.Mongo != nil {
		change = append(change, needs.Mongo)
	}
	if s.Buckets, err = connect.Open(ctx, env.Getenv, s.Config.Buckets, s.Queue, env.Err, change...); err != nil {
		return err
	}
	s.atEnd(s.Buckets.Close)
	if needs.Measure != nil {
		needs.Measure(s.Queue, s.Buckets)
	}
	s.Limiter, err = reservations.New(s.Buckets, s.Config.Limits, reservations.Config{})
	if err != nil {
		return err
	}
	s.Overrides, err = s.Buckets.Overrides(ctx)
	if err != nil && s.Overrides == nil {
		return err
	}
	if fault := inside.Of(s.Limiter).SetOverrides(s.Overrides); !needs.NoQueue {
		err = errors.Join(err, fault)
	}
	if err != nil {
		cli.Warn(env, "%v", err)
	}
	return nil
}

// Reader reads the fleet's limits and waitlists.
func (s *Session) Reader() state.Reader {
	return state.Reader{Limiter: s.Limiter, Scheduler: s.Scheduler, Source: s.sources.of, Names: s.flowNames}
}

// flowNames opens the batches when the first flow waits. If they can't be opened, flows have no names.
func (s *Session) flowNames(ctx context.Context, flows []string) map[string]string {
	s.naming.Lock()
	defer s.naming.Unlock()
	if s.names == nil {
		store, err := s.Batches, error(nil)
		if store == nil {
			store, err = s.Buckets.Batches(ctx)
		}
		if err != nil {
			return nil
		}
		s.names = explained.Names(store)
	}
	return s.names(ctx, flows)
}

func (s *Session) atEnd(end func(context.Context) error) { s.closers = append(s.closers, end) }

// Close ends all connections, the last first, also if ctx has ended.
func (s *Session) Close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closePatience)
	defer cancel()
	for _, end := range slices.Backward(s.closers) {
		_ = end(ctx) // nothing is left to do over it
	}
}
