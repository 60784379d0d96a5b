package headwaytest

import (
	"context"
	"errors"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/calls/pause"
	"github.com/headway-go/headway/internal/test/network"
	"github.com/headway-go/headway/reservations"
)

// Service is Redis or the store of the buckets, as all processes of the fleet reach it. Its data survives every fault.
// Faults that overlap add up, and hold for workers that start meanwhile as well.
type Service struct {
	fleet *Fleet
	name  string
	fault fault // the empty fault of this service
}

// begin begins a fault of this service.
func (s *Service) begin(call string, lasts time.Duration, change func(*fault), problems ...string) {
	s.fleet.t.Helper()
	s.fleet.check(s.name+"."+call, append(problems, fromZero("d", lasts))...)
	f := s.fault
	change(&f)
	s.fleet.faults.begin(f, lasts)
}

// Down makes the service refuse all connections for a time.
func (s *Service) Down(d time.Duration) {
	s.fleet.t.Helper()
	s.begin("Down", d, func(f *fault) { f.state = network.Refuse })
}

// Hang makes the service answer nothing for a time: calls run into their timeouts.
func (s *Service) Hang(d time.Duration) {
	s.fleet.t.Helper()
	s.begin("Hang", d, func(f *fault) { f.state = network.Hang })
}

// Slow makes each message to and from the service take longer for a time.
func (s *Service) Slow(more, d time.Duration) {
	s.fleet.t.Helper()
	s.begin("Slow", d, func(f *fault) { f.more = more }, fromZero("more", more))
}

// Lose makes a share of the answers, from 0 to 1, get lost for a time: the caller does not know what became of its
// call.
func (s *Service) Lose(part float64, d time.Duration) {
	s.fleet.t.Helper()
	s.begin("Lose", d, func(f *fault) { f.lose = part }, share("share", part))
}

// errAway is why a store that is down does not answer.
var errAway = errors.New("connection refused")

// errLost is why a lost answer does not come.
var errLost = errors.New("connection reset")

// reach is the store of the buckets as one process reaches it.
type reach struct {
	reservations.Store
	*network.Conditions

	process *process
}

// travel takes the time of a message in one direction. Applied is what is known of the request if the message is lost.
func (r *reach) travel(ctx context.Context, limit, key string, applied bucket.Applied) error {
	state, delay := r.State(), r.Delay()
	lost := applied == bucket.AppliedMaybe && r.Loses()
	err := ctx.Err()
	if delay > 0 {
		err = pause.For(ctx, delay)
	}
	switch {
	case err != nil:
	case state == network.Hang:
		<-ctx.Done()
		err = ctx.Err()
	case state == network.Refuse:
		err = errAway
	case lost:
		err = errLost
	}
	if err == nil {
		return nil
	}
	return &bucket.UnavailableError{Bucket: bucket.Name(limit, key), Applied: applied, Err: err}
}

func (r *reach) Update(ctx context.Context, limit, key string, change reservations.Change) error {
	if err := r.travel(ctx, limit, key, bucket.AppliedNo); err != nil {
		return err
	}
	err := r.Store.Update(ctx, limit, key, change)
	r.process.fleet.trace.change(r.process.name, limit, key, change, err)
	if err != nil {
		return err
	}
	if c, ok := change.(*bucket.Change); ok && len(c.Requests) == 0 {
		return nil
	}
	return r.travel(ctx, limit, key, bucket.AppliedMaybe)
}

func (r *reach) Reset(ctx context.Context, limit, key string) error {
	if err := r.travel(ctx, limit, key, bucket.AppliedNo); err != nil {
		return err
	}
	return r.Store.Reset(ctx, limit, key)
}
