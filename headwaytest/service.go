package headwaytest

import (
	"context"
	"errors"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/pause"
	"github.com/headway-go/headway/internal/test/network"
	"github.com/headway-go/headway/reservations"
)

// Service is Redis or the store of the buckets, as all processes of the fleet reach it. Its data survives every fault.
type Service struct {
	all func() []*process
	set func(*process) connection
}

// connection is how one process reaches a service.
type connection interface {
	Set(state network.State)
	Slow(more time.Duration)
	Lose(share float64)
}

func wireOf(p *process) connection  { return p.wire }
func storeOf(p *process) connection { return p.store }

func (s *Service) each(do func(connection)) {
	for _, p := range s.all() {
		if !p.dead() {
			do(s.set(p))
		}
	}
}

func (s *Service) state(during network.State, d time.Duration) {
	s.each(func(c connection) { c.Set(during) })
	time.AfterFunc(d, func() { s.each(func(c connection) { c.Set(network.Up) }) })
}

// Down makes the service refuse all connections for a time.
func (s *Service) Down(d time.Duration) { s.state(network.Refuse, d) }

// Hang makes the service answer nothing for a time: calls run into their timeouts.
func (s *Service) Hang(d time.Duration) { s.state(network.Hang, d) }

// Slow makes each message to and from the service take longer for a time.
func (s *Service) Slow(more, d time.Duration) {
	s.each(func(c connection) { c.Slow(more) })
	time.AfterFunc(d, func() { s.each(func(c connection) { c.Slow(0) }) })
}

// Lose makes a share of the answers, from 0 to 1, get lost for a time: the caller does not know what became of its
// call.
func (s *Service) Lose(share float64, d time.Duration) {
	s.each(func(c connection) { c.Lose(share) })
	time.AfterFunc(d, func() { s.each(func(c connection) { c.Lose(0) }) })
}

// errAway is why a store that is down does not answer.
var errAway = errors.New("connection refused")

// errLost is why a lost answer does not come.
var errLost = errors.New("connection reset")

// reach is the store of the buckets as one process reaches it.
type reach struct {
	reservations.Store
	*network.Conditions
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

func (r *reach) Apply(
	ctx context.Context, limit bucket.Limit, key string, requests []bucket.Request,
) ([]bucket.Answer, error) {
	if err := r.travel(ctx, limit.Name, key, bucket.AppliedNo); err != nil {
		return nil, err
	}
	answers, err := r.Store.Apply(ctx, limit, key, requests)
	if err != nil {
		return nil, err
	}
	if err = r.travel(ctx, limit.Name, key, bucket.AppliedMaybe); err != nil {
		return nil, err
	}
	return answers, nil
}

func (r *reach) Load(ctx context.Context, limit, key string) (bucket.Bucket, time.Time, error) {
	if err := r.travel(ctx, limit, key, bucket.AppliedNo); err != nil {
		return bucket.Bucket{}, time.Time{}, err
	}
	return r.Store.Load(ctx, limit, key)
}

func (r *reach) Reset(ctx context.Context, limit, key string) error {
	if err := r.travel(ctx, limit, key, bucket.AppliedNo); err != nil {
		return err
	}
	return r.Store.Reset(ctx, limit, key)
}
