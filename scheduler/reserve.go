package scheduler

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/headway-go/headway/reservations"
)

const (
	// reserveTogether is how many tasks are reserved, sent and recorded in one go.
	reserveTogether = 128
	// afterTimeout bounds what is done about tasks that are sent already, whatever became of the caller's context.
	afterTimeout = 10 * time.Second
)

// sendReserved reserves, sends and records, a batch at a time, until something can't be reached.
func (s *Scheduler) sendReserved(ctx context.Context, parcels []*parcel) error {
	for batch := range slices.Chunk(parcels, reserveTogether) {
		err := s.sendBatch(ctx, batch)
		if err != nil || slices.ContainsFunc(batch, func(p *parcel) bool { return p.err != nil && !exists(p.err) }) {
			return err
		}
	}
	return nil
}

// sendBatch enqueues before it records, so that nobody looks for a task that is not there yet; until then asynq has the task
// at the time of the safety net. Places of tasks that were not enqueued are given back.
func (s *Scheduler) sendBatch(ctx context.Context, batch []*parcel) error {
	buckets, order := byBucket(batch)
	var sent []*parcel
	var refused error
	for _, name := range order {
		if refused = s.reserve(ctx, buckets[name]); refused != nil {
			break // what is reserved already is sent all the same
		}
		sent = append(sent, buckets[name]...)
	}
	s.send(ctx, sent)
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterTimeout)
	defer cancel()
	var unwatched []*parcel
	for _, name := range order {
		unwatched = append(unwatched, s.recordBatch(after, buckets[name])...)
	}
	s.giveBack(after, unwatched)
	return refused
}

// byBucket sorts the parcels by their bucket, in order; those without a charge have the empty name.
func byBucket(batch []*parcel) (buckets map[string][]*parcel, order []string) {
	buckets = map[string][]*parcel{}
	for _, p := range batch {
		name := ""
		if len(p.Charges) > 0 {
			name = p.Charges[0].Bucket()
		}
		if buckets[name] == nil {
			order = append(order, name)
		}
		buckets[name] = append(buckets[name], p)
	}
	return buckets, order
}

// reserve gives the parcels of one bucket their times, and an ID to be found by.
func (s *Scheduler) reserve(ctx context.Context, parcels []*parcel) error {
	if len(parcels[0].Charges) == 0 {
		return nil
	}
	charges := make([]reservations.Charge, len(parcels))
	for i, p := range parcels {
		charges[i] = p.Charges[0]
	}
	outcomes, err := s.limiter.ReserveMany(ctx, charges)
	if err != nil {
		return fmt.Errorf("reserve for %d tasks: %w", len(parcels), err)
	}
	heard := time.Now()
	for i, p := range parcels {
		p.out, p.heard = outcomes[i], heard
		p.Charges[0].Shard = p.out.Shard
		p.at = heard.Add(netDelay(p.out.Wait()))
		if p.Options.ID == "" {
			p.Options.ID = uuid.NewString()
		}
	}
	return nil
}

// recordBatch lets the parcels of one bucket that were enqueued stand in its line. It returns those that are reserved and do
// not stand there: they were not enqueued, or Redis could not take the note and asynq delivers them at the time of the safety net, as new ones.
func (s *Scheduler) recordBatch(ctx context.Context, parcels []*parcel) (unwatched []*parcel) {
	for _, p := range parcels {
		if p.info == nil && p.reserved() {
			unwatched = append(unwatched, p)
		}
	}
	waiting := slices.DeleteFunc(slices.Clone(parcels), func(p *parcel) bool { return p.info == nil || !p.reserved() })
	for len(waiting) > 0 {
		n := 1
		for n < len(waiting) && waiting[n].out.Generation == waiting[0].out.Generation && waiting[n].out.Shard == waiting[0].out.Shard {
			n++
		}
		unwatched = append(unwatched, s.recordRun(ctx, waiting[:n])...)
		waiting = waiting[n:]
	}
	return unwatched
}

// recordRun records parcels of one line.
func (s *Scheduler) recordRun(ctx context.Context, parcels []*parcel) (unwatched []*parcel) {
	bucket := parcels[0].Charges[0].Bucket()
	last := parcels[len(parcels)-1]
	entries := make([]entry, len(parcels))
	for i, p := range parcels {
		jitter := s.config.jitter(p.out.State, rand.Float64()) //nolint:gosec // jitter needs no secrecy
		t := Task{Queue: p.info.Queue, ID: p.info.ID}
		entries[i] = newEntry(t, p.Charges[0], p.out.Place(), jitter, p.out.Wait()+jitter, p.heard)
	}
	first, earlier, err := s.lines.record(ctx, movementOf(bucket, last.out, last.heard), entries)
	if err != nil {
		s.config.Logger.WarnContext(ctx, "reserved tasks could not be noted", slog.String("bucket", bucket), slog.Int("tasks", len(parcels)), slog.Any("error", err))
		return parcels
	}
	if earlier {
		s.waker.bring(first)
	}
	for i, p := range parcels {
		p.info.NextProcessAt = p.heard.Add(entries[i].wait)
	}
	return nil
}

// giveBack releases the places of tasks that will not use them. What can't be given back is healed by refill.
func (s *Scheduler) giveBack(ctx context.Context, parcels []*parcel) {
	for i, p := range parcels {
		bucket := p.Charges[0].Bucket()
		outcome, err := s.limiter.Release(ctx, p.Charges[0], p.out.Place())
		if err != nil {
			s.config.Logger.WarnContext(ctx, "places of tasks could not be given back",
				slog.String("bucket", bucket), slog.Int("tasks", len(parcels)-i), slog.Any("error", err))
			return
		}
		s.Moved(bucket, outcome)
	}
}
