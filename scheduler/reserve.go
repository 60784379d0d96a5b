package scheduler

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/headway-go/headway/internal/waitlist"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// reserveTogether is how many tasks are reserved, sent and put into waitlists in one go; reserveFirst at the
// beginning, and then twice as many each time: the first ones may start at once, and a full bucket loses what comes
// back while they are on their way.
const (
	reserveTogether = 128
	reserveFirst    = 8
)

// reservation is what one bucket answered to a parcel.
type reservation struct {
	charge reservations.Charge
	out    reservations.Outcome
	wait   time.Duration // until the task is expected to start, by the waitlist
}

// sendReserved reserves and sends, a batch at a time, until something can't be reached.
func (s *Scheduler) sendReserved(ctx context.Context, parcels []*parcel) error {
	for n := reserveFirst; len(parcels) > 0; n = min(2*n, reserveTogether) {
		batch := parcels[:min(n, len(parcels))]
		parcels = parcels[len(batch):]
		err := s.sendBatch(ctx, batch)
		if err != nil || slices.ContainsFunc(batch, func(p *parcel) bool { return p.err != nil && !alone(p.err) }) {
			return err
		}
	}
	return nil
}

// sendBatch enqueues before the tasks join, so that the dispatcher finds them; until then asynq has each task at the
// time of its net. Reservations of tasks that were not enqueued are released.
func (s *Scheduler) sendBatch(ctx context.Context, batch []*parcel) error {
	err := s.reserveBatch(ctx, batch)
	if err != nil {
		s.releaseAll(ctx, batch)
		return err
	}
	s.refuseExpected(batch)
	s.send(ctx, batch)
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterTimeout)
	defer cancel()
	var unused []*parcel
	for _, p := range batch {
		if p.info == nil && p.held != nil {
			unused = append(unused, p)
		}
	}
	s.releaseAll(after, unused)
	s.setTimers(after, batch)
	if err := s.joinParcels(after, batch); err != nil { // asynq delivers them at the time of their nets, as new ones
		s.config.Logger.WarnContext(ctx, "reserved tasks could not join their waitlists",
			slog.Int("tasks", len(batch)), slog.Any("error", err))
	}
	return nil
}

// reserveBatch reserves for the first charge of each parcel, then, if that need not wait, for the second instead, and
// so on: a task waits for one bucket, and holds nothing that another task could use meanwhile. If some parcels have
// to wait for a bucket, all others of the bucket join the same waitlist: they come first, so they keep their order.
func (s *Scheduler) reserveBatch(ctx context.Context, batch []*parcel) error {
	left := slices.DeleteFunc(slices.Clone(batch), func(p *parcel) bool { return len(p.Charges) == 0 })
	for next := 0; len(left) > 0; next++ {
		var passed []*parcel
		for _, parcels := range grouped(left, func(p *parcel) string { return p.Charges[next].Bucket() }) {
			if err := s.reserve(ctx, parcels, next); err != nil {
				return err
			}
			if slices.ContainsFunc(parcels, (*parcel).waits) {
				continue
			}
			for _, p := range parcels {
				if len(p.Charges) > next+1 {
					passed = append(passed, p)
				}
			}
		}
		s.releaseAll(ctx, passed)
		left = passed
	}
	return nil
}

// waits says whether the bucket that answered last has the parcel wait.
func (p *parcel) waits() bool { return p.held.out.Wait() > reservations.Hold }

func grouped[T any](all []T, by func(T) string) (groups [][]T) {
	index := map[string]int{}
	for _, t := range all {
		name := by(t)
		i, ok := index[name]
		if !ok {
			i = len(groups)
			index[name], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], t)
	}
	return groups
}

// reserve asks one bucket for all parcels, by the charge that each asks next.
func (s *Scheduler) reserve(ctx context.Context, parcels []*parcel, next int) error {
	charges := make([]reservations.Charge, len(parcels))
	for i, p := range parcels {
		charges[i] = p.Charges[next]
	}
	outcomes, err := s.limiter.ReserveMany(ctx, charges)
	if err != nil {
		return fmt.Errorf("reserve for %d tasks: %w", len(parcels), err)
	}
	now := time.Now()
	ahead := map[string]reservations.Tokens{} // of the next parcel, by bucket
	for i, p := range parcels {
		o := outcomes[i]
		charges[i].Shard = o.Shard
		bucket := charges[i].Bucket()
		if ahead[bucket] == nil {
			ahead[bucket] = s.waiting(ctx, bucket)
		}
		for meter, n := range charges[i].Tokens {
			ahead[bucket][meter] += n
		}
		wait := max(o.Wait(), o.Bucket.Expect(o.At, ahead[bucket]).Sub(o.At), tasks.At(p.Task).Sub(now))
		p.held = &reservation{charge: charges[i], out: o, wait: wait}
		net := netDelay(wait, rand.Float64()) //nolint:gosec // jitter needs no secrecy
		p.at = now.Add(beforeExpiry(net, p.Task, now))
		if p.Options.ID == "" {
			p.Options.ID = uuid.NewString()
		}
	}
	return nil
}

// waiting is what the tasks of a waitlist charge together; nothing where that can't be read.
func (s *Scheduler) waiting(ctx context.Context, bucket string) reservations.Tokens {
	tokens := reservations.Tokens{}
	if l, err := s.list.List(ctx, bucket); err == nil {
		maps.Copy(tokens, l.Tokens)
	}
	return tokens
}

// joinParcels lets the parcels that are reserved and enqueued wait for their buckets, in their order.
func (s *Scheduler) joinParcels(ctx context.Context, batch []*parcel) error {
	now := time.Now()
	var entries []waitlist.Entry
	for _, p := range batch {
		if p.held == nil || p.info == nil {
			continue
		}
		c, o := p.held.charge, p.held.out
		s.report.joins(c.Bucket(), o.Bucket)
		e := s.entry(ctx, Task{Queue: p.info.Queue, ID: p.info.ID}, Turn{Charges: p.Charges}, c)
		e.Reserved, e.Keep = o.State == reservations.StateReserved, p.held.wait
		e.Info = waitInfo{Since: now.UnixMilli(), Until: now.Add(p.held.wait).UnixMilli()}.encode()
		p.info.NextProcessAt = now.Add(p.held.wait)
		entries = append(entries, e)
	}
	if len(entries) == 0 {
		return nil
	}
	_, err := s.joinAll(ctx, struct{}{}, entries)
	return err
}

// releaseAll gives the reservations of parcels back, side by side: they share a round trip. What can't be given back
// heals by refill.
func (s *Scheduler) releaseAll(ctx context.Context, parcels []*parcel) {
	var releasing sync.WaitGroup
	for _, p := range parcels {
		if p.held == nil {
			continue
		}
		held := *p.held
		p.held = nil
		releasing.Go(func() { s.releaseOne(ctx, held.charge, held.out.Reservation()) })
	}
	releasing.Wait()
}

// releaseOne gives back what a task holds that will not start.
func (s *Scheduler) releaseOne(ctx context.Context, c reservations.Charge, r reservations.Reservation) {
	o, err := s.limiter.Release(ctx, c, r)
	if err != nil {
		level := slog.LevelDebug
		if s.unfreed.now(time.Now()) {
			level = slog.LevelWarn
		}
		s.config.Logger.Log(ctx, level, "reservation not released; further ones are logged at debug level for a minute",
			slog.String("bucket", c.Bucket()), slog.Any("error", err))
		return
	}
	s.Changed(c.Bucket(), o)
}
