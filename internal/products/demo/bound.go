package demo

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/products/judge"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/worker"
)

// bound checks the promise of the buckets themselves, by their own clock: in no window may more tokens start than the
// capacity and the refill. The provider counts calls when they arrive, so it also counts what the machine did in
// between. Safe for concurrent use.
type bound struct {
	mu    sync.Mutex // guards steps
	steps []step
}

// step is a start, which takes tokens at its due moment, or a settlement, which gives back.
type step struct {
	at    time.Time
	takes reservations.Tokens
	start bool
}

// event notes what a start takes, and what a settlement corrects.
func (b *bound) event(e worker.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case e.Kind == worker.KindStarted && len(e.Charges) > 0:
		takes := e.Charges[len(e.Charges)-1].Tokens
		b.steps = append(b.steps, step{at: e.Outcome.At.Add(e.Outcome.Hold), takes: takes, start: true})
	case e.Kind == worker.KindSettled && e.Err == nil && !e.Outcome.At.IsZero():
		takes := reservations.Tokens{}
		for meter, used := range e.Used {
			takes[meter] = used - e.Charge.Tokens[meter]
		}
		b.steps = append(b.steps, step{at: e.Outcome.At, takes: takes})
	}
}

// exceeded returns how many starts took more than the limit allowed at their moment, and the largest excess as a share
// of a capacity.
func (b *bound) exceeded(limit reservations.Limit) (starts int, most float64) {
	b.mu.Lock()
	steps := slices.Clone(b.steps)
	b.mu.Unlock()
	slices.SortStableFunc(steps, func(a, c step) int {
		refundsFirst := func(s step) int {
			if s.start {
				return 1
			}
			return 0
		}
		return cmp.Or(a.at.Compare(c.at), cmp.Compare(refundsFirst(a), refundsFirst(c)))
	})
	if len(steps) == 0 {
		return 0, 0
	}
	meters := map[string]*judge.Bucket{}
	for i, m := range bucket.Rules(limit).Meters {
		rate, capacity := m.RatePerSecond(), limit.Meters[i].Cap()
		meters[m.Name] = judge.NewBucket(rate, capacity, 0, steps[0].at)
	}
	for _, s := range steps {
		above := 0.
		for name, m := range meters {
			n := s.takes[name]
			m.Fill(s.at)
			if s.start || n > 0 || limit.Settle != reservations.SettleKeep { // SettleKeep gives nothing back
				m.Add(-n)
			}
			if s.start && m.Level < -tolerance*m.Capacity {
				above = max(above, -m.Level/m.Capacity)
			}
		}
		if above > 0 {
			starts++
			most = max(most, above)
		}
	}
	return starts, most
}

// tolerance is the part of a capacity by which sums of floating-point numbers and whole nanoseconds may differ.
const tolerance = 1e-6

// stallEvery is how often the machine is measured.
const stallEvery = 2 * time.Millisecond

// stalls measures the longest time in which this process did not run, until stop is called or ctx ends: such a pause
// between a start and the call makes the call late.
func stalls(ctx context.Context) (longest func() time.Duration, stop func()) {
	ctx, stop = context.WithCancel(ctx)
	var mu sync.Mutex
	var most time.Duration
	go func() {
		tick := time.NewTicker(stallEvery)
		defer tick.Stop()
		last := time.Now()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			now := time.Now()
			mu.Lock()
			most = max(most, now.Sub(last)-stallEvery)
			mu.Unlock()
			last = now
		}
	}()
	return func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return most
	}, stop
}
