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
	// reserveTogether is how many tasks are reserved, sent and recorded in one go; reserveFirst at the beginning, and then twice as many each
	// time. The first ones are due at once, and while they are on their way, a full bucket loses what would come back.
	reserveTogether = 128
	reserveFirst    = 8
	// onTheWay is how long a task at least needs from here to the decision that it starts: it is sent, woken, and taken by a worker. The plan does
	// not count on what a full bucket loses until then.
	onTheWay = 50 * time.Millisecond
	// afterTimeout bounds what is done about tasks that are sent already, whatever became of the caller's context.
	afterTimeout = 10 * time.Second
)

// sendReserved reserves, sends and records, a batch at a time, until something can't be reached.
func (s *Scheduler) sendReserved(ctx context.Context, parcels []*parcel) error {
	for n := reserveFirst; len(parcels) > 0; n = min(2*n, reserveTogether) {
		batch := parcels[:min(n, len(parcels))]
		parcels = parcels[len(batch):]
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
	ready, refused := s.reserveBatch(ctx, batch)
	s.send(ctx, ready)
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterTimeout)
	defer cancel()
	var unwatched []*parcel
	for _, p := range batch {
		if p.info == nil && p.reserved() {
			unwatched = append(unwatched, p)
		}
	}
	for _, line := range byLine(waitingOf(batch)) {
		unwatched = append(unwatched, s.recordLine(after, line)...)
	}
	s.giveBack(after, unwatched)
	return refused
}

// waitingOf are those that asynq has, and that were given a time.
func waitingOf(batch []*parcel) []*parcel {
	return slices.DeleteFunc(slices.Clone(batch), func(p *parcel) bool { return p.info == nil || !p.reserved() })
}

// reserveBatch has the buckets give the parcels their times: those of the first charges, then, for the parcels that need not wait there,
// those of the second, and so on. Whoever has to wait is given no time further on: it would be one that passes unused, in a
// bucket that others need. It returns the parcels that are ready to be sent, all but those that an error left on their way.
func (s *Scheduler) reserveBatch(ctx context.Context, batch []*parcel) (ready []*parcel, err error) {
	ready = slices.DeleteFunc(slices.Clone(batch), func(p *parcel) bool { return len(p.Charges) > 0 })
	left := slices.DeleteFunc(slices.Clone(batch), func(p *parcel) bool { return len(p.Charges) == 0 })
	for len(left) > 0 {
		var passed []*parcel
		for _, parcels := range byBucket(left) {
			if err = s.reserve(ctx, parcels); err != nil {
				return ready, err
			}
			for _, p := range parcels {
				if len(p.held) == len(p.Charges) || p.last().out.Wait() > reservations.Hold {
					ready = append(ready, p)
				} else {
					passed = append(passed, p)
				}
			}
		}
		left = passed
	}
	return ready, nil
}

// byBucket sorts the parcels by the bucket that is asked next, in order.
func byBucket(batch []*parcel) [][]*parcel {
	return grouped(batch, func(p *parcel) string { return p.Charges[len(p.held)].Bucket() })
}

// byLine sorts parcels that are reserved by the line in which they are to stand, in order.
func byLine(batch []*parcel) [][]*parcel {
	return grouped(batch, func(p *parcel) string { return movementOf(p.last().charge.Bucket(), p.last().out, p.last().heard).line })
}

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

// reserve gives the parcels their times in the bucket that all of them ask next, and an ID to be found by.
func (s *Scheduler) reserve(ctx context.Context, parcels []*parcel) error {
	charges := make([]reservations.Charge, len(parcels))
	for i, p := range parcels {
		charges[i] = p.Charges[len(p.held)]
	}
	outcomes, err := s.limiter.ReserveAhead(ctx, charges, onTheWay)
	if err != nil {
		return fmt.Errorf("reserve for %d tasks: %w", len(parcels), err)
	}
	heard := time.Now()
	for i, p := range parcels {
		charges[i].Shard = outcomes[i].Shard
		p.held = append(p.held, reservation{charge: charges[i], out: outcomes[i], heard: heard})
		p.at = heard.Add(netDelay(outcomes[i].Wait()))
		if p.Options.ID == "" {
			p.Options.ID = uuid.NewString()
		}
	}
	return nil
}

// recordLine lets parcels of one line that were enqueued stand in it. It returns all of them where Redis could not take the note: asynq
// delivers them at the time of the safety net, as new ones.
func (s *Scheduler) recordLine(ctx context.Context, parcels []*parcel) (unwatched []*parcel) {
	newest := parcels[len(parcels)-1].last()
	bucket := newest.charge.Bucket()
	entries := make([]entry, len(parcels))
	for i, p := range parcels {
		r := p.last()
		jitter := s.config.jitter(r.out.State, rand.Float64()) //nolint:gosec // jitter needs no secrecy
		t := Task{Queue: p.info.Queue, ID: p.info.ID}
		entries[i] = newEntry(t, r.charge, r.out.Place(), jitter, r.out.Wait()+jitter, r.heard, p.others()...)
	}
	first, earlier, err := s.lines.record(ctx, movementOf(bucket, newest.out, newest.heard), entries)
	if err != nil {
		s.config.Logger.WarnContext(ctx, "reserved tasks could not be noted", slog.String("bucket", bucket), slog.Int("tasks", len(parcels)), slog.Any("error", err))
		return parcels
	}
	if earlier {
		s.waker.bring(first)
	}
	for i, p := range parcels {
		p.info.NextProcessAt = p.last().heard.Add(entries[i].wait)
	}
	return nil
}

// giveBack releases the places of tasks that will not use them. What can't be given back is healed by refill.
func (s *Scheduler) giveBack(ctx context.Context, parcels []*parcel) {
	for i, p := range parcels {
		for _, r := range p.held {
			bucket := r.charge.Bucket()
			outcome, err := s.limiter.Release(ctx, r.charge, r.out.Place())
			if err != nil {
				s.config.Logger.WarnContext(ctx, "places of tasks could not be given back",
					slog.String("bucket", bucket), slog.Int("tasks", len(parcels)-i), slog.Any("error", err))
				return
			}
			s.Moved(bucket, outcome)
		}
	}
}

// reservation is the place that a parcel was given by one bucket.
type reservation struct {
	charge reservations.Charge
	out    reservations.Outcome
	heard  time.Time // when the answer came
}

func (p *parcel) reserved() bool { return len(p.held) > 0 }

// last is the reservation in whose line the parcel stands.
func (p *parcel) last() reservation { return p.held[len(p.held)-1] }

// others are the places that are kept beside.
func (p *parcel) others() (others []Held) {
	for _, r := range p.held[:len(p.held)-1] {
		others = append(others, Held{Place: r.out.Place(), Bucket: r.charge.Bucket()})
	}
	return others
}
