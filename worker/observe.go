package worker

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"github.com/headway-go/headway/internal/calls/bounded"
	"github.com/headway-go/headway/reservations"
)

const (
	// observePatience bounds one Sync: an observation that comes late is worth nothing.
	observePatience = 5 * time.Second
	// observeEvery is how long a corrected bucket is corrected only downwards. An answer of a provider supersedes the
	// answers before it, so a busy fleet need not correct its bucket after each call.
	observeEvery = time.Second
	// sightingsKept bounds what one handler can report.
	sightingsKept = 16
)

// sighting is an observation, and when it was reported or sent.
type sighting struct {
	seen reservations.Observation
	at   time.Time
}

// Observe reports what a provider says is left of its own limit, from a plain asynq handler behind Limits.Middleware;
// typed handlers have Job.Observe.
func Observe(ctx context.Context, seen reservations.Observation) {
	if u, ok := ctx.Value(usageKey{}).(*usage); ok {
		u.saw(seen)
	}
}

// Observe reports what a provider says is left of its own limit: the rate limit headers of an answer, say. When the
// handler has ended and its charges are settled, the bucket is corrected by it, see reservations.Observation. A meter
// belongs to the last charge that has it, the provider's; meters that no charge names are ignored. A bucket that was
// corrected within the last second is corrected only downwards. Safe for concurrent use; nothing happens for an
// unlimited task, and after the handler has ended.
func (j *Job[T]) Observe(seen reservations.Observation) {
	if j.usage != nil {
		j.usage.saw(seen)
	}
}

func (u *usage) saw(seen reservations.Observation) {
	seen.Remaining = maps.Clone(seen.Remaining)
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.sightings) == sightingsKept { // the newest count
		u.sightings = u.sightings[1:]
	}
	u.sightings = append(u.sightings, sighting{seen: seen, at: time.Now()})
}

// seen returns the sightings so far, the oldest first. Later ones are dropped.
func (u *usage) seen() []sighting {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := u.sightings
	u.sightings = nil
	return all
}

// observe corrects the buckets by what the handler saw, in the background, when its charges are settled: before, what
// the provider has given back already would be given back once more. A bucket that the provider's refusal has just
// blocked knows better.
func (s *settler) observe(ctx context.Context, d *delivery, e ending) {
	all := d.usage.seen()
	charges := d.taken()
	if len(all) == 0 || len(charges) == 0 || e.refusal != nil {
		return
	}
	done := s.pending.add(kindSettlement, d.id)
	go func() {
		defer done()
		d.settling.Wait()
		for _, saw := range all {
			for c, remaining := range apportion(charges, saw.seen.Remaining) {
				own := reservations.Observation{Remaining: remaining, Age: saw.seen.Age, Up: saw.seen.Up}
				s.sync(ctx, d, charges[c], sighting{seen: own, at: saw.at})
			}
		}
	}()
}

// apportion returns, by the index of each charge, the rest of its meters: a meter belongs to the last charge that has
// it.
func apportion(charges []reservations.Charge, remaining reservations.Tokens) map[int]reservations.Tokens {
	parts := map[int]reservations.Tokens{}
	for meter, n := range remaining {
		for c := len(charges) - 1; c >= 0; c-- {
			if _, has := charges[c].Tokens[meter]; !has {
				continue
			}
			if parts[c] == nil {
				parts[c] = reservations.Tokens{}
			}
			parts[c][meter] = n
			break
		}
	}
	return parts
}

// sync corrects one bucket. It is tried once: the next observation supersedes it.
func (s *settler) sync(ctx context.Context, d *delivery, c reservations.Charge, saw sighting) {
	whole := reservations.BucketName{Limit: c.Limit, Key: c.Key} // a sync corrects all shards
	if !s.corrected.due(whole, saw.seen, time.Now()) {
		return
	}
	syncing, cancel := context.WithTimeout(context.WithoutCancel(ctx), observePatience)
	defer cancel()
	saw.seen.Age = max(0, saw.seen.Age) + time.Since(saw.at)
	o, err := s.limiter.Sync(syncing, c, saw.seen)
	if err != nil {
		s.corrected.Delete(whole)
		s.logTask(ctx, d, slog.LevelDebug, "bucket not corrected by what the provider says", slog.Any("error", err))
	}
	s.dispatcher.Changed(o)
	s.emit(Event{Kind: KindSynced, Task: d.ref(), Charge: c, Seen: saw.seen, Outcome: o, Err: err})
}

// corrections are the last observations that were sent to buckets. The zero value is ready.
type corrections struct {
	bounded.Map[reservations.BucketName, sighting]
}

// due reports whether an observation has to be sent, and stores it then.
func (t *corrections) due(at reservations.BucketName, seen reservations.Observation, now time.Time) (due bool) {
	t.Change(at, func(last *sighting) {
		if due = now.Sub(last.at) >= observeEvery || last.below(seen); due {
			*last = sighting{seen: seen, at: now}
		}
	})
	return due
}

// below reports whether seen has less of any meter, or a meter that was not sent. One that may go up is always sent.
func (s sighting) below(seen reservations.Observation) bool {
	for meter, n := range seen.Remaining {
		if before, ok := s.seen.Remaining[meter]; !ok || n < before {
			return true
		}
	}
	return seen.Up
}
