package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headway-go/headway/internal/calls/pause"
)

// startAll starts the workers and returns when all take tasks.
func (r *run) startAll(ctx context.Context) error {
	wanted := r.workers.seen().ready + r.env.Workers
	r.fleet = nil
	for range r.env.Workers {
		p, err := startWorker(ctx, r.contestant, r.env, &r.workers, r.stderr)
		if err != nil {
			return err
		}
		r.fleet = append(r.fleet, p)
	}
	deadline := time.Now().Add(readyWithin)
	for r.workers.seen().ready < wanted {
		if err := errors.Join(pause.For(ctx, look), r.alive()); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("bench: workers are not ready within %v", readyWithin)
		}
	}
	return nil
}

// alive returns an error if a worker has ended by itself.
func (r *run) alive() error {
	for _, p := range r.fleet {
		if p.dead() {
			return fmt.Errorf("bench: a worker of %s has ended by itself: %s; see its output above", r.contestant.Name(),
				p.cmd.ProcessState)
		}
	}
	return nil
}

// await returns when the work is done or cut off, or with an error from sent.
func (r *run) await(ctx context.Context, sent chan error) error {
	wanted := r.work.Wanted()
	for {
		if done, err := r.reached(ctx, wanted); done || err != nil {
			r.ended = time.Now()
			return err
		}
		if time.Since(r.began) > r.work.CutAfter() {
			r.cut, r.ended = true, time.Now()
			return nil
		}
		select {
		case err := <-sent:
			if err != nil {
				return err
			}
			sent = nil
		default:
		}
		if err := errors.Join(pause.For(ctx, look), r.alive()); err != nil {
			return err
		}
		if err := r.outage(ctx); err != nil {
			return err
		}
	}
}

// reached returns whether the run has reached its end. It stores the counts there, if the work has First.
func (r *run) reached(ctx context.Context, wanted int) (bool, error) {
	if r.work.Local {
		return r.workers.seen().started >= wanted, nil
	}
	if r.provider.Count(r.work.UntilKey) < wanted {
		return false, nil
	}
	if r.work.First == 0 {
		return true, nil
	}
	counts, err := r.redis.counts(ctx)
	r.first = mark{started: r.provider.Count(""), redis: counts, cpu: r.cpuNow()}
	return true, err
}

// mark is a snapshot of counts: the starts so far, the counters of Redis, and the CPU time of the running workers.
type mark struct {
	started int
	redis   redisCounts
	cpu     time.Duration
}

// outage kills and starts workers at the times of the work.
func (r *run) outage(ctx context.Context) error {
	down := r.work.Down
	if down.For == 0 {
		return nil
	}
	if r.downAt.IsZero() && time.Since(r.began) >= down.At {
		for _, p := range r.fleet {
			r.gone = r.gone.plus(p.kill())
		}
		r.fleet, r.downAt = nil, time.Now()
	}
	if !r.downAt.IsZero() && r.upAt.IsZero() && time.Since(r.downAt) >= down.For {
		if err := r.startAll(ctx); err != nil {
			return err
		}
		r.upAt = time.Now()
	}
	return nil
}

// finish waits for the last settlements and reads the counters.
func (r *run) finish(ctx context.Context) (err error) {
	if r.ended.IsZero() {
		r.ended = time.Now()
	}
	if !r.cut && r.work.Idle == 0 {
		if err = pause.For(ctx, settle); err != nil {
			return err
		}
	}
	r.counts.end, err = r.redis.counts(ctx)
	return err
}

// stopAll ends the workers.
func (r *run) stopAll() error {
	var errs []error
	for _, p := range r.fleet {
		usage, err := p.stop()
		r.gone = r.gone.plus(usage)
		errs = append(errs, err)
	}
	r.fleet = nil
	return errors.Join(errs...)
}

// cpuNow returns the CPU time of the running workers so far.
func (r *run) cpuNow() time.Duration {
	var sum time.Duration
	for _, p := range r.fleet {
		sum += p.cpuNow()
	}
	return sum
}
