package reservations

import (
	"cmp"
	"context"
	"time"
)

// View is what a person wants to know of a bucket: how full it is, what was promised, who waits, and for how long.
type View struct {
	// Limit and Key name the bucket, Shard too where its limit has Shards; zero for the sum of all shards.
	Limit string
	Key   string
	Shard int
	// Found says that the bucket is kept. One that is not is full, and nobody waits for it.
	Found bool
	// Now is the moment that all else is true for, on the store's clock.
	Now time.Time
	// At is when the bucket was last asked. Zero where it is not kept, and for the sum of shards.
	At time.Time
	// Waiting says that somebody has a place that did not start yet.
	Waiting bool
	// Meters are in the order of the limit.
	Meters []MeterView
	// Blocked is for how long nothing starts because a provider refused a call. Zero: nothing is blocked.
	Blocked time.Duration
	// DoneIn is when the present backlog will have started, if nothing else comes: all that late tasks, the plan and the line are
	// owed, and no block left. Zero: nobody waits longer than for a delivery.
	DoneIn time.Duration
	// Shift and Speed are the clock of the line at At, Generation and Version the bucket's own, as in Outcome. Zero for the sum of shards.
	Shift      time.Duration
	Speed      float64
	Generation int64
	Version    int64
	// Shards are the single shards, in order; nil where the limit has none.
	Shards []View
}

// Bucket is the name of the bucket, as Charge.Bucket has it.
func (v View) Bucket() string { return BucketName(shardName(v.Limit, v.Shard), v.Key) }

// MeterView is one meter of a View. All amounts are in tokens and none but Level is negative.
type MeterView struct {
	// Meter is the definition in force.
	Meter
	// Level is what may start now, at most the capacity. Below zero the bucket is in debt: that much comes back before anything starts.
	Level float64
	// Debt is how far Level is below zero.
	Debt float64
	// Late is taken by tasks that came at their time and found no room.
	Late float64
	// Plan is how far ahead the plan has gone, to be compared with MaxReserved; PlanIn is when that will have come back.
	Plan   float64
	PlanIn time.Duration
	// Line is taken by tasks that stand behind max_reserved; LineIn is when it will have come back, after the plan.
	Line   float64
	LineIn time.Duration
	// Gap is what of Plan and Line together nobody asked for: where another meter is scarcer, it only keeps the places in time.
	Gap float64
}

// View is the bucket at now, on the store's clock; earlier than At counts as At. It is pure. Limit is the one in force, with its
// meters' Start, as stores see it. The zero Bucket is one that is not kept.
func (b Bucket) View(l Limit, key string, now time.Time) View {
	v := View{Limit: l.Name, Key: key, Found: !b.At.IsZero(), Now: now, At: b.At, Generation: b.Generation, Version: b.Version, Speed: cmp.Or(b.Speed, 1)}
	if v.Found {
		v.Shift = seconds(b.Shift)
		v.Now = later(now, b.At)
	}
	b = b.accrue(l, v.Now)
	v.Blocked = seconds(b.Blocked)
	v.DoneIn = seconds(b.wait(l, LedgerLine, make([]float64, len(l.Meters))))
	for k, m := range l.Meters {
		led := b.Meters[k].Ledgers
		if m.windowed() { // what is lost at the end of a block waits for nobody
			led[LedgerUse] = min(led[LedgerUse], m.Cap()-b.during(m))
		}
		v.Waiting = v.Waiting || owed(led, LedgerUse, LedgerLine) > 0
		v.Meters = append(v.Meters, MeterView{
			Meter: m, Level: led[LedgerUse], Debt: max(0, -led[LedgerUse]),
			Late: owed(led, LedgerUse, LedgerLate), Plan: max(0, -led[LedgerPlan]), Line: owed(led, LedgerPlan, LedgerLine),
			PlanIn: seconds(m.until(b.At, max(0, -led[LedgerPlan]))), LineIn: seconds(m.until(b.At, max(0, -led[LedgerLine]))),
			Gap: b.Meters[k].Gap * max(0, -led[LedgerLine]-b.during(m)),
		})
	}
	return v
}

// owed is what the ledgers after one have been charged beside it, up to another; rounding is no charge.
func owed(led [LedgerCount]float64, from, to int) float64 {
	if n := led[from] - led[to]; n > tolerance {
		return n
	}
	return 0
}

// Clock is a Store that can tell its clock. View asks it, so that what it shows is true for now on any machine.
type Clock interface {
	// Now is the clock of which Step is told. Errors as for Store.Apply.
	Now(ctx context.Context) (time.Time, error)
}

// View reads the bucket of limit and key and changes nothing: no bucket comes into being, and none follows a limit that is
// configured otherwise here than in the fleet. Where the limit has Shards, it is the sum of them, with each in Shards: amounts
// are added, and of times the longest counts. Where the store can't tell its clock, this machine's counts. Errors as for Begin.
func (l *Limiter) View(ctx context.Context, limit, key string) (View, error) {
	known, err := l.Limits().For(limit, key)
	if err != nil {
		return View{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.combine.timeout)
	defer cancel()
	if known.Shards <= 1 {
		return l.look(ctx, known.forKey(key), key)
	}
	sum := View{Limit: limit, Key: key}
	for i := 1; i <= known.Shards; i++ {
		shard, err := l.look(ctx, known.forKey(key).shard(i), key)
		if err != nil {
			return View{}, err
		}
		shard.Limit, shard.Shard = limit, i
		sum = sum.with(shard)
	}
	for k := range sum.Meters {
		sum.Meters[k].Meter = known.Meters[k]
	}
	return sum, nil
}

// look views one bucket. The clock is read last, so that it is not behind the bucket.
func (l *Limiter) look(ctx context.Context, limit Limit, key string) (View, error) {
	b, _, err := l.store.Bucket(ctx, limit.Name, key)
	if err != nil {
		return View{}, err
	}
	now := time.Now()
	if clock, ok := l.store.(Clock); ok {
		if now, err = clock.Now(ctx); err != nil {
			return View{}, err
		}
	}
	return b.View(limit, key, now), nil
}

// with counts one more shard in.
func (v View) with(shard View) View {
	v.Found, v.Waiting = v.Found || shard.Found, v.Waiting || shard.Waiting
	v.Now = later(v.Now, shard.Now)
	v.Blocked, v.DoneIn = max(v.Blocked, shard.Blocked), max(v.DoneIn, shard.DoneIn)
	if v.Meters == nil {
		v.Meters = make([]MeterView, len(shard.Meters))
	}
	for k, m := range shard.Meters {
		s := &v.Meters[k]
		s.Level, s.Late, s.Plan, s.Line = s.Level+m.Level, s.Late+m.Late, s.Plan+m.Plan, s.Line+m.Line
		s.Gap += m.Gap
		s.Debt, s.PlanIn, s.LineIn = s.Debt+m.Debt, max(s.PlanIn, m.PlanIn), max(s.LineIn, m.LineIn)
	}
	v.Shards = append(v.Shards, shard)
	return v
}
