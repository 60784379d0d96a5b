package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/engine"
	"github.com/headway-go/headway/internal/overview"
	"github.com/headway-go/headway/internal/register"
)

const (
	// freshFor is for how long one look at the fleet serves all readers.
	freshFor = 900 * time.Millisecond
	// slowFor is the same for what MongoDB has to count.
	slowFor = 5 * time.Second
	// lookPatience bounds one look.
	lookPatience = 10 * time.Second
	// waitlistsMost is the most waitlists of a limit that one look reads.
	waitlistsMost = 100
	// deadSince is how far back dead tasks count as news.
	deadSince = time.Hour
)

// fleet is one look at the fleet. Where a service does not answer, its part is empty and Faults says so.
type fleet struct {
	At      time.Time
	Limits  []overview.Limit
	Queues  []*asynq.QueueInfo
	Workers []*asynq.ServerInfo
	Members []register.Member // the workers, with what each can serve
	Lacked  []register.Lack   // what workers lack that have returned tasks
	Duty    engine.Duty
	// Dead is how many dead tasks there are, DeadLately how many of them died in the last hour.
	Dead, DeadLately int
	Batches          []batchRow
	Faults           []fault
}

// fault is a part of the fleet that could not be read.
type fault struct {
	What string
	Err  error
}

// serves says whether a worker takes tasks from the queue.
func serves(w *asynq.ServerInfo, queue string) bool { return !stopping(w) && w.Queues[queue] > 0 }

func stopping(w *asynq.ServerInfo) bool { return w.Status != "active" }

// look returns the state of the fleet, at most freshFor old.
func (s *Server) look(ctx context.Context) fleet {
	s.looking <- struct{}{}
	defer func() { <-s.looking }()
	if time.Since(s.last.At) < freshFor {
		return s.last
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookPatience) // others share what it returns
	defer cancel()
	f := fleet{At: time.Now()}
	f.part("limits", func() error { return s.lookLimits(ctx, &f) })
	f.part("queues", func() (err error) {
		f.Queues, err = overview.Queues(s.inspector)
		return err
	})
	f.part("workers", func() error { return s.lookWorkers(ctx, &f) })
	f.part("the dispatcher", func() (err error) {
		f.Duty, err = s.config.Reader.Scheduler.Engine().OnDuty(ctx)
		return err
	})
	if f.At.Sub(s.slow.At) >= slowFor {
		s.slow = fleet{At: f.At, Queues: f.Queues}
		s.slow.part("dead tasks", func() error { return s.lookDead(ctx, &s.slow) })
		s.slow.part("batches", func() (err error) {
			s.slow.Batches, err = s.listBatches(ctx)
			return err
		})
	}
	f.Dead, f.DeadLately, f.Batches = s.slow.Dead, s.slow.DeadLately, s.slow.Batches
	f.Faults = append(f.Faults, s.slow.Faults...)
	s.last = f
	return f
}

// part reads one part. A fault of it leaves the others. Copies of a fleet do not share faults that are added later.
func (f *fleet) part(what string, read func() error) {
	if err := read(); err != nil {
		f.Faults = append(slices.Clip(f.Faults), fault{What: what, Err: err})
	}
}

// unread is the fault of a part of which nothing is shown. It is nil if the part could be read.
func (f *fleet) unread(part string, shown int) error {
	for _, fault := range f.Faults {
		if fault.What == part && shown == 0 {
			return fmt.Errorf("the page cannot read %s: %w", part, fault.Err)
		}
	}
	return nil
}

func (s *Server) lookLimits(ctx context.Context, f *fleet) error {
	var faults []error
	if s.config.Refresh != nil {
		faults = append(faults, s.config.Refresh(ctx))
	}
	for _, name := range s.config.Reader.Limiter.Limits().Names() {
		limit, err := s.config.Reader.Limit(ctx, name, waitlistsMost)
		if err != nil {
			faults = append(faults, fmt.Errorf("limit %s: %w", name, err))
			continue
		}
		f.Limits = append(f.Limits, limit)
	}
	return errors.Join(faults...)
}

func (s *Server) lookWorkers(ctx context.Context, f *fleet) (err error) {
	if f.Workers, err = s.inspector.Servers(); err != nil {
		return fmt.Errorf("list the workers: %w", err)
	}
	slices.SortFunc(f.Workers, func(a, b *asynq.ServerInfo) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.PID, b.PID))
	})
	fleet := register.New(s.config.Client)
	if f.Members, err = fleet.Members(ctx); err == nil {
		f.Lacked, err = fleet.Lacked(ctx, time.Now())
	}
	return err
}

func (s *Server) lookDead(ctx context.Context, f *fleet) (err error) {
	if s.config.Dead == nil {
		for _, q := range f.Queues {
			f.Dead += q.Archived
		}
		return nil
	}
	if f.Dead, err = s.config.Dead.Count(ctx, deadtasks.Filter{}); err == nil {
		f.DeadLately, err = s.config.Dead.Count(ctx, deadtasks.Filter{Since: f.At.Add(-deadSince)})
	}
	return err
}

// Buckets are the buckets of all limits, the longest waitlists first.
func (f *fleet) Buckets() []overview.Bucket {
	var all []overview.Bucket
	for _, limit := range f.Limits {
		all = append(all, limit.Buckets...)
	}
	slices.SortStableFunc(all, func(a, b overview.Bucket) int { return cmp.Compare(b.Waiting, a.Waiting) })
	return all
}

// totals are the figures of the whole fleet.
type totals struct {
	Running, Ready, Waiting, Promoted, Later, Dead, Workers int
	Processed, Failed                                       int
}

// Totals sums up the fleet. Tasks that wait for a limit are in asynq's scheduled and retry sets as well: Later are the
// others there, which wait for their time or for their next attempt.
func (f *fleet) Totals() totals {
	t := totals{Dead: f.Dead, Workers: len(f.Workers)}
	later := 0
	for _, q := range f.Queues {
		t.Running += q.Active
		t.Ready += q.Pending
		later += q.Scheduled + q.Retry
		t.Processed += q.Processed
		t.Failed += q.Failed
	}
	for _, b := range f.Buckets() {
		t.Waiting += b.Waiting
		t.Promoted += b.Promoted
	}
	t.Later = max(0, later-t.Waiting)
	return t
}
