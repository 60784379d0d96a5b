package state

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/waitlist"
)

// Look reads what Redis and the store of the buckets have: limits with at most that many waitlists each, queues,
// workers, the dispatcher. Dead is how many tasks are in asynq's archive. The caller adds batches, and better counts of
// dead tasks.
func (r Reader) Look(ctx context.Context, client redis.UniversalClient, waitlists int) Snapshot {
	return r.look(ctx, client, func() ([]Limit, error) { return r.allLimits(ctx, waitlists) })
}

// LookAt is Look with one bucket ("limit:key") or one limit ("limit") alone, or with all limits ("").
func (r Reader) LookAt(ctx context.Context, client redis.UniversalClient, what string) Snapshot {
	return r.look(ctx, client, func() ([]Limit, error) {
		found, err := r.Read(ctx, what)
		return found.Limits, err
	})
}

func (r Reader) look(ctx context.Context, client redis.UniversalClient, limits func() ([]Limit, error)) Snapshot {
	s := Snapshot{At: time.Now()}
	inspector := asynq.NewInspectorFromRedisClient(client)
	s.Read(PartLimits, func() (err error) {
		s.Limits, err = limits()
		return err
	})
	s.Read(PartQueues, func() (err error) {
		s.Queues, err = Queues(inspector)
		return err
	})
	s.Read(PartWorkers, func() error { return s.ReadWorkers(ctx, client) })
	s.endless()
	s.Read(PartDispatcher, func() (err error) {
		s.Duty, err = inside.Of(r.Scheduler).OnDuty(ctx)
		return err
	})
	for _, q := range s.Queues {
		s.Dead += q.Archived
	}
	return s
}

// endless takes the expected ends from waitlists of limits that no live worker has.
func (s *Snapshot) endless() {
	for _, l := range s.Limits {
		if s.lack(l) == 0 {
			continue
		}
		for i := range l.Buckets {
			l.Buckets[i].EndIn = nil
		}
	}
}

// lack is how many tasks wait for a limit that no live worker has. Direct callers, as in a gateway, need no worker.
func (s *Snapshot) lack(l Limit) (tasks int) {
	if register.Lacking(s.Members, register.Need{Limit: l.Limit}) == nil {
		return 0
	}
	for _, b := range l.Buckets {
		tasks += b.Waiting - b.Queues[waitlist.QueueCallers]
	}
	return tasks
}

// allLimits reads all limits. The error names each limit that can't be read; the others are returned.
func (r Reader) allLimits(ctx context.Context, waitlists int) (all []Limit, err error) {
	if r.Limiter == nil {
		return nil, nil
	}
	for _, name := range inside.Of(r.Limiter).Limits().Names() {
		limit, failed := r.Limit(ctx, name, waitlists)
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("limit %s: %w", name, failed))
			continue
		}
		all = append(all, limit)
	}
	return all, err
}

// ReadWorkers reads the workers, what each can serve, and what they lack.
func (s *Snapshot) ReadWorkers(ctx context.Context, client redis.UniversalClient) (err error) {
	if s.Workers, err = asynq.NewInspectorFromRedisClient(client).Servers(); err != nil {
		return fmt.Errorf("list the workers: %w", err)
	}
	slices.SortFunc(s.Workers, func(a, b *asynq.ServerInfo) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.PID, b.PID))
	})
	fleet := register.New(client)
	if s.Members, err = fleet.Members(ctx); err == nil {
		s.Lacked, err = fleet.Lacked(ctx, s.At)
	}
	return err
}
