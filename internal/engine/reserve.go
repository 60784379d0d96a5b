package engine

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
	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/asynqdb"
	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/envelope"
	"github.com/headway-go/headway/internal/waitlist"
	"github.com/headway-go/headway/reservations"
)

// ReserveTogether is how many tasks are reserved and put into waitlists in one go.
const ReserveTogether = 128

// Parcel is one task on its way to asynq.
type Parcel struct {
	envelope.Envelope

	// At is when asynq delivers it, should no dispatcher; zero: now.
	At time.Time
	// Held is the answer of the bucket that the task waits for; nil if nothing is reserved. Wait is the time until the
	// task is expected to start, by the waitlist.
	Held *reservations.Outcome
	Wait time.Duration
	// Guard is on what condition asynq takes it; nil for a task that asynq has already.
	Guard *asynqdb.Guard
	// Info is set once the task is enqueued, and Err is why it is not.
	Info *asynq.TaskInfo
	Err  error
}

// ReserveAll reserves for the first charge of each parcel, then, if that need not wait, for the second instead, and
// so on: a task waits for one bucket, and holds nothing that another task could use meanwhile. If some parcels have
// to wait for a bucket, all others of the bucket join the same waitlist: they come first, so they keep their order.
func (s *Engine) ReserveAll(ctx context.Context, batch []*Parcel) error {
	left := slices.DeleteFunc(slices.Clone(batch), func(p *Parcel) bool { return len(p.Charges) == 0 })
	for next := 0; len(left) > 0; next++ {
		var passed []*Parcel
		for _, parcels := range grouped(left, func(p *Parcel) string { return p.Charges[next].Bucket() }) {
			if err := s.reserve(ctx, parcels, next); err != nil {
				return err
			}
			if slices.ContainsFunc(parcels, (*Parcel).waits) {
				continue
			}
			for _, p := range parcels {
				if len(p.Charges) > next+1 {
					passed = append(passed, p)
				}
			}
		}
		s.ReleaseAll(ctx, passed)
		left = passed
	}
	return nil
}

// waits says whether the bucket that answered last has the parcel wait.
func (p *Parcel) waits() bool { return p.Held.Wait() > bucket.Hold }

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
func (s *Engine) reserve(ctx context.Context, parcels []*Parcel, next int) error {
	charges := make([]reservations.Charge, len(parcels))
	for i, p := range parcels {
		charges[i] = p.Charges[next]
	}
	outcomes, err := s.limiter.Reserve(ctx, charges...)
	if err != nil {
		return fmt.Errorf("reserve for %d tasks: %w", len(parcels), err)
	}
	now := time.Now()
	ahead := map[string]reservations.Tokens{} // of the next parcel, by bucket
	for i, p := range parcels {
		o := outcomes[i]
		bucket := o.Charge.Bucket()
		if ahead[bucket] == nil {
			l, _ := s.list.List(ctx, bucket) // none where it can't be read
			ahead[bucket] = reservations.Tokens{}
			maps.Copy(ahead[bucket], l.Tokens)
		}
		for meter, n := range o.Charge.Tokens {
			ahead[bucket][meter] += n
		}
		p.Held, p.Wait = &o, max(expectedWait(o, ahead[bucket]), envelope.At(p.Task).Sub(now))
		net := netDelay(p.Wait, rand.Float64()) //nolint:gosec // jitter needs no secrecy
		p.At = now.Add(beforeExpiry(net, p.Task, now))
		if p.Options.ID == "" {
			p.Options.ID = uuid.NewString()
		}
	}
	return nil
}

// JoinAll lets the parcels that are reserved and enqueued wait for their buckets, in their order.
func (s *Engine) JoinAll(ctx context.Context, batch []*Parcel) error {
	now := time.Now()
	var entries []waitlist.Entry
	for _, p := range batch {
		if p.Held == nil || p.Info == nil {
			continue
		}
		c := p.Held.Charge
		s.report.joins(c.Bucket(), p.Held.Bucket)
		e := s.entry(ctx, waitlist.Task{Queue: p.Info.Queue, ID: p.Info.ID}, Turn{Charges: p.Charges}, c)
		e.Reserved, e.Keep = p.Held.State == reservations.StateReserved, p.Wait
		e.Info = WaitInfo{Since: now.UnixMilli(), Until: now.Add(p.Wait).UnixMilli()}.encode()
		p.Info.NextProcessAt = now.Add(p.Wait)
		entries = append(entries, e)
	}
	if len(entries) == 0 {
		return nil
	}
	_, err := s.joinAll(ctx, struct{}{}, entries)
	return err
}

// ReleaseAll gives the reservations of parcels back, side by side: they share a round trip. What can't be given back
// heals by refill.
func (s *Engine) ReleaseAll(ctx context.Context, parcels []*Parcel) {
	var releasing sync.WaitGroup
	for _, p := range parcels {
		if p.Held == nil {
			continue
		}
		held := p.Held.Charge
		p.Held = nil
		releasing.Go(func() { s.releaseOne(ctx, held) })
	}
	releasing.Wait()
}

// releaseOne gives back what a task holds that will not start.
func (s *Engine) releaseOne(ctx context.Context, c reservations.Charge) {
	o, err := s.limiter.Release(ctx, c)
	if err != nil {
		level := slog.LevelDebug
		if s.unfreed.Due(time.Now()) {
			level = slog.LevelWarn
		}
		s.log.Log(ctx, level, "reservation not released; further ones are logged at debug level for a minute",
			slog.String("bucket", c.Bucket()), slog.Any("error", err))
		return
	}
	s.Changed(c.Bucket(), o)
}
