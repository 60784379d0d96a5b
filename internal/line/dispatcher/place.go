package dispatcher

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

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/reservations"
)

const (
	// PlaceTogether is how many tasks get their places in one go.
	PlaceTogether = 128
	// reservePatience is how long the sender of tasks waits for a bucket, and reserveRest how long it asks none after the
	// store did not answer. Tasks have their places all the same.
	reservePatience = time.Second
	reserveRest     = 5 * time.Second
)

// Parcel is one task on its way to asynq.
type Parcel struct {
	envelope.Envelope

	// Net is when asynq delivers it, should no dispatcher; zero: now.
	Net time.Time
	// Place is the charge for whose bucket the task waits, and Wait the time until it is expected to start. Place has no
	// Limit if the task waits in no waitlist.
	Place reservations.Charge
	Wait  time.Duration
	// Held is the answer of that bucket; nil if it was not asked.
	Held *reservations.Outcome
	// Guard is on what condition asynq takes it.
	Guard *asynqdb.Guard
	// Info is set once the task is enqueued, and Err is why it is not.
	Info *asynq.TaskInfo
	Err  error
}

// reserved says whether the bucket has promised the tokens of the task.
func (p *Parcel) reserved() bool { return p.Held != nil && p.Held.State == bucket.StateReserved }

// sender gives tasks their places as they are enqueued.
type sender struct{ *waiter }

// Place gives each parcel with a charge a place in one waitlist, before it is enqueued; Join puts it there afterwards.
// Without a limiter a task has no place until a worker has taken it.
//
// Place reserves for the first charge of each parcel, then, if that need not wait, for the second instead, and so on: a
// task waits for one bucket, and holds nothing that another task could use meanwhile. If some parcels have to wait for
// a bucket, all others of the bucket join the same waitlist: they come first, so they keep their order. A bucket that
// does not answer within a second promises nothing: its tasks wait as they do where max_reserved leaves no room. A task
// with a later time gets its place then, and nothing is reserved for it.
func (s *sender) Place(ctx context.Context, batch []*Parcel) {
	now, lists := time.Now(), waiting{s: s.shared, lists: map[reservations.BucketName]waitlist.List{}}
	var charged, left []*Parcel
	for _, p := range batch {
		if len(p.Charges) == 0 || s.limiter == nil && p.Options.StartBy.IsZero() {
			continue
		}
		if charged = append(charged, p); s.limiter != nil {
			p.Charges = inside.Of(s.limiter).Permitted(ctx, p.Charges)
		}
		if s.limiter != nil && inside.Of(s.limiter).HasStore() && !p.Options.At.After(now) {
			left = append(left, p)
		}
	}
	for next := 0; len(left) > 0; next++ {
		var passed []*Parcel
		for _, parcels := range grouped(left, func(p *Parcel) reservations.BucketName { return p.Charges[next].Bucket() }) {
			if err := s.reserve(ctx, parcels, next); err != nil {
				s.log.DebugContext(ctx, "tasks are enqueued without a reservation", slog.Any("error", err))
				continue
			}
			if slices.ContainsFunc(parcels, func(p *Parcel) bool { return p.Held.Wait() > bucket.Hold }) {
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
	for _, p := range charged {
		s.expect(ctx, p, now, lists)
		if s.limiter == nil { // it was only asked whether the task can start in time
			continue
		}
		net := netDelay(p.Wait, rand.Float64()) //nolint:gosec // jitter needs no secrecy
		p.Net = now.Add(beforeExpiry(net, p.Task, now))
		if p.Options.ID == "" {
			p.Options.ID = uuid.NewString()
		}
	}
}

func grouped[T any, K comparable](all []T, by func(T) K) (groups [][]T) {
	index := map[K]int{}
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
func (s *sender) reserve(ctx context.Context, parcels []*Parcel, next int) error {
	if away := s.faults.resting(time.Now()); away != nil {
		return away
	}
	charges := make([]reservations.Charge, len(parcels))
	for i, p := range parcels {
		charges[i] = p.Charges[next]
	}
	early, cancel := context.WithTimeout(ctx, reservePatience)
	defer cancel()
	var outcomes []reservations.Outcome
	err := s.Ask(ctx, early, charges[0], func(ctx context.Context) (err error) {
		outcomes, err = inside.Of(s.limiter).Reserve(ctx, charges...)
		return err
	})
	if err != nil {
		return fmt.Errorf("reserve for %d tasks: %w", len(parcels), err)
	}
	for i, p := range parcels {
		p.Held, p.Place = &outcomes[i], outcomes[i].Charge
	}
	return nil
}

// waiting is what waits in each bucket, with the parcels that were placed since it was read.
type waiting struct {
	s     *shared
	lists map[reservations.BucketName]waitlist.List
}

func (w waiting) in(ctx context.Context, at reservations.BucketName) waitlist.List {
	l, read := w.lists[at]
	if !read {
		l, _ = w.s.list.List(ctx, at.String()) // nothing where it can't be read
		l.Tokens = maps.Clone(l.Tokens)
		if l.Tokens == nil {
			l.Tokens = map[string]float64{}
		}
		w.lists[at] = l
	}
	return l
}

// expect sets the bucket that the parcel waits for, and for how long. A parcel that no bucket was asked for waits where
// others wait, else for its last bucket, the provider's.
func (s *sender) expect(ctx context.Context, p *Parcel, now time.Time, lists waiting) {
	for _, c := range p.Charges {
		if p.Held != nil {
			break
		}
		if s.limiter != nil {
			c = inside.Of(s.limiter).Choose(c)
		}
		if p.Place = c; lists.in(ctx, c.Bucket()).Waiting > 0 {
			break
		}
	}
	if p.reserved() && p.Held.Wait() <= bucket.Hold {
		p.Wait = max(p.Held.Wait(), 0) // whatever waits for the bucket can start as well
		return
	}
	l := lists.in(ctx, p.Place.Bucket())
	for meter, n := range p.Place.Tokens {
		l.Tokens[meter] += n
	}
	switch at, known := Expect(l, l.Tokens); {
	case p.Held != nil:
		p.Wait = expectedWait(*p.Held, l.Tokens)
	case known && l.Waiting > 0 && !at.IsZero():
		p.Wait = at.Sub(l.Now)
	}
	p.Wait = max(p.Wait, p.Options.At.Sub(now), 0)
}

// Join puts the parcels that are placed and enqueued into their waitlists, in their order. After an error asynq
// delivers them at their nets, as new ones.
func (s *sender) Join(ctx context.Context, batch []*Parcel) error {
	if s.limiter == nil {
		return nil
	}
	now := time.Now()
	var entries []waitlist.Entry
	for _, p := range batch {
		if p.Place.Limit == "" || p.Info == nil {
			continue
		}
		if p.Held != nil {
			s.report.joins(p.Place.Bucket(), p.Held.Bucket)
		}
		t := waitlist.Task{Queue: p.Info.Queue, ID: p.Info.ID}
		e := s.entry(ctx, t, Turn{Charges: p.Charges}, p.Place)
		e.Reserved, e.Keep = p.reserved(), p.Wait
		if e.Reserved && (p.Guard.Idle || p.Held.Wait() > 0) { // else the dispatcher says whether a worker will come
			e.Answered, e.Ready = true, p.Held.Wait()
		}
		p.Info.NextProcessAt = now.Add(p.Wait)
		e.Info = WaitInfo{Since: now.UnixMilli(), Until: p.Info.NextProcessAt.UnixMilli()}.encode()
		entries = append(entries, e)
	}
	switch len(entries) {
	case 0:
		return nil
	case 1: // along with entries of other callers
		_, err := s.joins.Do(ctx, struct{}{}, entries[0])
		return err
	default:
		_, err := s.joinAll(ctx, struct{}{}, entries)
		return err
	}
}

// ReleaseAll gives the reservations of parcels back, side by side: they share a round trip. What can't be given back
// heals by refill.
func (s *sender) ReleaseAll(ctx context.Context, parcels []*Parcel) {
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
