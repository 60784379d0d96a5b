package metrics

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/state/metric"
	"github.com/headway-go/headway/reservations"
)

// Store measures the calls of a store of buckets. Make the Limiter with what it returns.
func (m *Metrics) Store(s reservations.Store) reservations.Store { return &store{Store: s, m: m} }

type store struct {
	reservations.Store

	m *Metrics
}

// Identity implements reservations.Identified, as far as the store does.
func (s *store) Identity(ctx context.Context) (reservations.Identity, error) {
	if of, ok := s.Store.(reservations.Identified); ok {
		return of.Identity(ctx)
	}
	return reservations.Identity{}, nil
}

// Update measures a change as "apply", and one that only reads as "load".
func (s *store) Update(ctx context.Context, limit, key string, change reservations.Change) (err error) {
	operation := "apply"
	if c, ok := change.(*bucket.Change); ok && len(c.Requests) == 0 {
		operation = "load"
	}
	defer s.note(operation, time.Now(), &err)
	return s.Store.Update(ctx, limit, key, change)
}

func (s *store) Reset(ctx context.Context, limit, key string) (err error) {
	defer s.note("reset", time.Now(), &err)
	return s.Store.Reset(ctx, limit, key)
}

// note counts a call that ends now, with its error.
func (s *store) note(operation string, began time.Time, err *error) {
	s.m.observe(time.Since(began), metric.StoreSeconds, operation)
	if *err != nil {
		s.m.count(metric.StoreErrors, operation)
	}
}

// RedisHook measures the calls of a Redis client: pass it to the client's AddHook before the client is used.
func (m *Metrics) RedisHook() redis.Hook { return redisHook{m} }

type redisHook struct{ m *Metrics }

// DialHook implements redis.Hook.
func (h redisHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := next(ctx, network, address)
		if err != nil {
			h.m.count(metric.RedisErrors, "dial")
		}
		return conn, err
	}
}

// ProcessHook implements redis.Hook.
func (h redisHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) (err error) {
		defer h.note(cmd.Name(), time.Now(), &err)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (h redisHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) (err error) {
		defer h.note("pipeline", time.Now(), &err)
		return next(ctx, cmds)
	}
}

// note counts a call that ends now, with its error.
func (h redisHook) note(command string, began time.Time, err *error) {
	label := h.m.commands.of(command)
	seconds, _ := h.m.calls.get(label, func() prometheus.Observer {
		return h.m.histograms[metric.RedisSeconds].WithLabelValues(label)
	})
	seconds.Observe(time.Since(began).Seconds())
	if *err != nil && !errors.Is(*err, redis.Nil) && !redis.HasErrorPrefix(*err, "NOSCRIPT") {
		h.m.count(metric.RedisErrors, label)
	}
}
