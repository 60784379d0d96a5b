// Package session connects a command to what it needs of a fleet: the queue, the buckets, the batches.
package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/batches"
	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/internal/config"
	"github.com/headway-go/headway/internal/connect"
	"github.com/headway-go/headway/internal/overview"
	"github.com/headway-go/headway/internal/tracing"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
)

// closePatience bounds the end of a command.
const closePatience = 5 * time.Second

// Needs says what a command needs. The zero value is for commands that only look.
type Needs struct {
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
	// Batches adds the batches, which need MongoDB.
	Batches bool
}

// Session is what one command is connected to. Close it.
type Session struct {
	Config    config.Config
	Queue     redis.UniversalClient   // nil with Needs.NoQueue, as is Scheduler
	Buckets   *connect.Buckets        // nil with Needs.NoBuckets
	Overrides []reservations.Override // all that are stored; nil with Needs.NoBuckets
	Limiter   *reservations.Limiter
	Scheduler *scheduler.Scheduler
	Batches   *batches.Store // nil without Needs.Batches

	closers []func(context.Context) error
}

// Load is Open with the settings of a file.
func Load(ctx context.Context, env cli.Environment, file string, needs Needs) (*Session, error) {
	c, err := config.Load(file)
	if err != nil {
		return nil, err
	}
	return Open(ctx, env, c, needs)
}

// Open connects to the services. Overrides that can't be read are warnings.
func Open(ctx context.Context, env cli.Environment, c config.Config, needs Needs) (_ *Session, err error) {
	if needs.Batches && env.Getenv("MONGODB_URI") == "" {
		return nil, connect.ErrNoMongo()
	}
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
	if needs.NoBuckets {
		s.Limiter = c.Checker()
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
	if s.Buckets, err = connect.Open(ctx, env.Getenv, s.Config.Buckets, s.Queue, env.Err); err != nil {
		return err
	}
	s.atEnd(s.Buckets.Close)
	if s.Limiter, err = reservations.New(s.Buckets, s.Config.Limits, reservations.Config{}); err != nil {
		return err
	}
	s.Overrides, err = s.Buckets.Overrides(ctx)
	if err != nil && s.Overrides == nil {
		return err
	}
	if fault := s.Limiter.SetOverrides(s.Overrides); !needs.NoQueue {
		err = errors.Join(err, fault)
	}
	if err != nil {
		cli.Warn(env, "%v", err)
	}
	return nil
}

// Reader reads the fleet's limits and waitlists.
func (s *Session) Reader() overview.Reader {
	return overview.Reader{Limiter: s.Limiter, Scheduler: s.Scheduler}
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
