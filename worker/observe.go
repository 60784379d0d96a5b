package worker

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/headway-go/headway/reservations"
)

const (
	// observePatience bounds one Sync: an observation that comes late is worth nothing.
	observePatience = 5 * time.Second
	// observeEvery is how long a bucket that was told what is left is told only of less. An answer says all that the answers before it
	// said, so a fleet that is busy need not ask its store once more for each call.
	observeEvery = time.Second
	// sightingsKept bounds what one handler can report.
	sightingsKept = 16
)

// sighting is an observation, and when it was reported.
type sighting struct {
	seen reservations.Observation
	at   time.Time
}

// Saw reports what a provider says is left of its own limit, from a plain asynq handler behind Limits.Middleware; typed handlers have
// Job.Saw, which tells more.
func Saw(ctx context.Context, seen reservations.Observation) {
	if u, ok := ctx.Value(usageKey{}).(*usage); ok {
		u.saw(seen)
	}
}

// Saw reports what a provider says is left of its own limit: the rate limit headers of an answer, say. When the handler has ended and its
// charges are settled, the bucket is corrected by it, see reservations.Observation. Where several charges of the task have a meter, that of the last
// one is meant, the provider's; meters that no charge names are ignored. A bucket that was told within the last second is told only of less. Safe for
// concurrent use; nothing happens for an unlimited task, and after the handler has ended.
func (j *Job[T]) Saw(seen reservations.Observation) {
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

// seen are the sightings so far, the oldest first. Those that come later are not taken.
func (u *usage) seen() []sighting {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := u.sightings
	u.sightings = nil
	return all
}

// observe corrects the buckets by what the handler saw, in the background, when its charges are settled: before, what the provider has
// given back already would be given back once more. A bucket that the provider's refusal has just blocked knows better.
func (g *gate) observe(ctx context.Context, d *delivery, e ending) {
	all := d.usage.seen()
	charges := d.claims.charges()
	if len(all) == 0 || len(charges) == 0 || e.refusal != nil {
		return
	}
	done := g.pending.add(kindSettlement, d.id)
	go func() {
		defer done()
		d.settling.Wait()
		for _, s := range all {
			for c, remaining := range apportion(charges, s.seen.Remaining) {
				g.sync(ctx, d, charges[c], sighting{seen: reservations.Observation{Remaining: remaining, Age: s.seen.Age, Up: s.seen.Up}, at: s.at})
			}
		}
	}()
}

// apportion says of each charge, by its index, what was seen of its meters: a meter belongs to the last charge that has it.
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

// sync tells one bucket what was seen of it. It is tried once: the next answer says more.
func (g *gate) sync(ctx context.Context, d *delivery, c reservations.Charge, s sighting) {
	whole := reservations.BucketName(c.Limit, c.Key) // all shards are told at once
	if !g.told.tell(whole, s.seen, time.Now()) {
		return
	}
	syncing, cancel := context.WithTimeout(context.WithoutCancel(ctx), observePatience)
	defer cancel()
	s.seen.Age = max(0, s.seen.Age) + time.Since(s.at)
	o, err := g.limiter.Sync(syncing, c, s.seen)
	if err != nil {
		g.told.forget(whole)
		g.tell(ctx, d, slog.LevelDebug, "bucket not corrected by what the provider says", slog.Any("error", err))
	}
	g.way.Changed(c.Bucket(), o)
	hook(g.log, g.events.OnSync, Sync{Task: d.ref(), Charge: c, Seen: s.seen, Outcome: o, Err: err})
}

// told remembers what buckets were told a short time ago. The zero value is ready.
type told struct {
	mu    sync.Mutex // guards what is below
	last  map[string]telling
	swept time.Time // when those that are too old were last dropped
}

type telling struct {
	seen reservations.Observation
	at   time.Time
}

// tell says whether the bucket has to be told, and remembers it then.
func (t *told) tell(bucket string, seen reservations.Observation, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, ok := t.last[bucket]; ok && now.Sub(last.at) < observeEvery && !last.below(seen) {
		return false
	}
	if now.Sub(t.swept) >= observeEvery {
		maps.DeleteFunc(t.last, func(_ string, l telling) bool { return now.Sub(l.at) >= observeEvery })
		t.swept = now
	}
	if t.last == nil {
		t.last = map[string]telling{}
	}
	t.last[bucket] = telling{seen: seen, at: now}
	return true
}

// below says whether seen has less of any meter, or one that was not told of. One that may go up is always told.
func (l telling) below(seen reservations.Observation) bool {
	for meter, n := range seen.Remaining {
		if before, ok := l.seen.Remaining[meter]; !ok || n < before {
			return true
		}
	}
	return seen.Up
}

// forget lets the bucket be told again at once.
func (t *told) forget(bucket string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.last, bucket)
}
