package reservations

import (
	"context"
	"time"

	"github.com/headway-go/headway/internal/bucket"
)

// View is a bucket as people want to see it: how full it is, how much is promised, and for how long.
type View struct {
	// Limit and Key name the bucket, Shard too where its limit has Shards; zero for the sum of all shards.
	Limit string
	Key   string
	Shard int
	// Found says that the bucket is stored. A bucket that is not stored is full.
	Found bool
	// Now is the moment for which all else is true, on the store's clock.
	Now time.Time
	// At is when the bucket was last changed. Zero where it is not stored, and for the sum of shards.
	At time.Time
	// Meters are in the order of the limit.
	Meters []MeterView
	// Blocked is for how long nothing starts because a provider refused a call. Zero: nothing is blocked.
	Blocked time.Duration
	// Refusing says why the provider refused the last call, and RefusingFor for how long it has refused calls; empty and
	// zero after a good answer. With ReasonQuota and ReasonKey the limit stops until people act, beside a call at growing
	// intervals that asks for it.
	Refusing    Reason
	RefusingFor time.Duration
	// Forgotten is for how long calls in flight may still run that the store has forgotten, e.g. a Redis that lost its
	// data: nothing starts meanwhile. Zero: there are none.
	Forgotten time.Duration
	// DoneIn is when all promised tokens will have come back, and no block is left. Zero: nothing is promised ahead.
	DoneIn time.Duration
	// Shards are the single shards, in order; nil where the limit has none.
	Shards []View
}

// MeterView is one meter of a View. All amounts are in tokens, and only Level can be negative.
type MeterView struct {
	// Meter is the definition in force.
	Meter
	// Current is how many tokens come back every Period at present: Rate, or what an adaptive meter has found.
	Current float64
	// Level is what may start now, at most the capacity. Below zero the bucket is in debt: that much comes back before
	// a task starts.
	Level float64
	// Debt is how far Level is below zero.
	Debt float64
	// Promised is what is reserved for waiting tasks.
	Promised float64
	// Ahead is how far the promises go into deficit, to be compared with MaxReserved. AheadIn is when that will have
	// come back.
	Ahead   float64
	AheadIn time.Duration
}

// view is a bucket at now, on the store's clock; a moment before At counts as At. Limit is the one in force, with the
// part of its shard. The zero Bucket is one that is not stored.
func view(b bucket.Bucket, l Limit, key string, now time.Time) View {
	v := View{Limit: l.Name, Key: key, Found: !b.At.IsZero(), Now: bucket.Later(now, b.At), At: b.At}
	b = b.Accrue(l.rules(), v.Now)
	v.Blocked = max(0, b.Blocked.Sub(b.At))
	v.Forgotten = b.Forgotten()
	v.DoneIn = v.Blocked
	if why, since := b.Refusing(); why != "" {
		v.Refusing, v.RefusingFor = Reason(why), max(0, b.At.Sub(since))
	}
	for k, meter := range l.Meters {
		s := b.Meters[k]
		m := MeterView{
			Meter: meter, Level: s.Started, Debt: max(0, -s.Started), Ahead: max(0, -s.Reserved),
			AheadIn: b.Until(s, -s.Reserved), Current: meter.Rate,
		}
		if s.Filling.Adaptive() {
			m.Current = s.Filling.Rate * meter.Period.Seconds()
		}
		if promised := s.Started - s.Reserved; promised > bucket.Tolerance {
			m.Promised = promised
		}
		v.DoneIn = max(v.DoneIn, m.AheadIn)
		v.Meters = append(v.Meters, m)
	}
	return v
}

// View reads the bucket of limit and key and changes nothing: no bucket is created, and none follows a limit that this
// process has and the fleet does not. Where the limit has Shards, they are read at the same time. The View is the sum
// of them, with each in Shards: amounts are added, and of times the longest counts. The error is an
// IsPermanent one, or matches ErrUnavailable.
func (l *Limiter) View(ctx context.Context, limit, key string) (View, error) {
	c := Charge{Limit: limit, Key: key}
	b := l.starts.buckets
	whole, err := b.LimitFor(ctx, c)
	if err != nil {
		return View{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	all := whole.buckets(c)
	views := make([]View, len(all))
	if err := sideBySide(len(all), func(i int) error {
		state, now, err := bucket.Read(ctx, b.store, all[i].Name, key)
		if err == nil {
			views[i] = view(state, all[i].Limit, key, now)
			views[i].Limit, views[i].Shard = limit, all[i].at.Shard
		}
		return err
	}); err != nil {
		return View{}, err
	}
	if whole.shards() == 1 {
		return views[0], nil
	}
	sum := View{Limit: limit, Key: key}
	for _, one := range views {
		sum = sum.with(one)
	}
	for k := range sum.Meters {
		sum.Meters[k].Meter = whole.Meters[k]
	}
	return sum, nil
}

// with adds one more shard.
func (v View) with(shard View) View {
	v.Found = v.Found || shard.Found
	v.Now = bucket.Later(v.Now, shard.Now)
	v.Blocked, v.DoneIn = max(v.Blocked, shard.Blocked), max(v.DoneIn, shard.DoneIn)
	if shard.Refusing != "" && (v.Refusing == "" || bucket.Reason(shard.Refusing).Stops()) {
		v.Refusing = shard.Refusing
	}
	v.RefusingFor = max(v.RefusingFor, shard.RefusingFor)
	v.Forgotten = max(v.Forgotten, shard.Forgotten)
	if v.Meters == nil {
		v.Meters = make([]MeterView, len(shard.Meters))
	}
	for k, m := range shard.Meters {
		s := &v.Meters[k]
		s.Level, s.Debt, s.Promised, s.Ahead = s.Level+m.Level, s.Debt+m.Debt, s.Promised+m.Promised, s.Ahead+m.Ahead
		s.AheadIn, s.Current = max(s.AheadIn, m.AheadIn), s.Current+m.Current
	}
	v.Shards = append(v.Shards, shard)
	return v
}
