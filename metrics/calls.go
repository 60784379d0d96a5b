package metrics

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/metric"
	"github.com/headway-go/headway/reservations"
)

// Store measures the calls of a store of buckets. Make the Limiter with what it returns.
func (m *Metrics) Store(s reservations.Store) reservations.Store { return &store{Store: s, m: m} }

type store struct {
	reservations.Store

	m *Metrics
}

func (s *store) Apply(
	ctx context.Context, limit bucket.Limit, key string, requests []bucket.Request,
) ([]bucket.Answer, error) {
	began := time.Now()
	outcomes, err := s.Store.Apply(ctx, limit, key, requests)
	s.note("apply", began, err)
	return outcomes, err
}

func (s *store) Reset(ctx context.Context, limit, key string) error {
	began := time.Now()
	err := s.Store.Reset(ctx, limit, key)
	s.note("reset", began, err)
	return err
}

func (s *store) Load(ctx context.Context, limit, key string) (bucket.Bucket, time.Time, error) {
	began := time.Now()
	b, now, err := s.Store.Load(ctx, limit, key)
	s.note("load", began, err)
	return b, now, err
}

func (s *store) note(operation string, began time.Time, err error) {
	s.m.observe(time.Since(began), metric.StoreSeconds, operation)
	if err != nil {
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
	return func(ctx context.Context, cmd redis.Cmder) error {
		began := time.Now()
		err := next(ctx, cmd)
		h.note(cmd.Name(), began, err)
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (h redisHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		began := time.Now()
		err := next(ctx, cmds)
		h.note("pipeline", began, err)
		return err
	}
}

func (h redisHook) note(command string, began time.Time, err error) {
	h.observer(command).Observe(time.Since(began).Seconds())
	if err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "NOSCRIPT") {
		h.m.count(metric.RedisErrors, h.m.commands.label(command))
	}
}

// observer measures a command. There are many calls of few commands.
func (h redisHook) observer(command string) prometheus.Observer {
	return h.m.calls.get(command, func() (prometheus.Observer, bool) {
		label := h.m.commands.label(command)
		return h.m.histograms[metric.RedisSeconds].WithLabelValues(label), label != other
	})
}
