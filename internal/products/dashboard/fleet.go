package dashboard

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/state"
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

// fleet is one look at the fleet, with its batches as the pages show them.
type fleet struct {
	state.Snapshot

	Batches []batchRow
}

// look returns the state of the fleet, at most freshFor old.
func (s *Server) look(ctx context.Context) fleet {
	s.looking <- struct{}{}
	defer func() { <-s.looking }()
	if time.Since(s.last.At) < freshFor {
		return s.last
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookPatience) // others share what it returns
	defer cancel()
	var refreshed error
	if s.config.Refresh != nil {
		refreshed = s.config.Refresh(ctx)
	}
	f := fleet{Snapshot: s.config.Reader.Look(ctx, s.config.Client, waitlistsMost)}
	if f.Unread(state.PartLimits) == nil {
		f.Read(state.PartLimits, func() error { return refreshed })
	}
	if f.At.Sub(s.slow.At) >= slowFor {
		s.slow = fleet{Snapshot: state.Snapshot{At: f.At, Dead: f.Dead}}
		s.slow.Read(state.PartDead, func() error { return s.lookDead(ctx, &s.slow) })
		s.slow.Read(state.PartBatches, func() (err error) {
			s.slow.Batches, err = s.listBatches(ctx)
			return err
		})
	}
	f.Dead, f.DeadLately, f.Batches = s.slow.Dead, s.slow.DeadLately, s.slow.Batches
	f.Faults = append(f.Faults, s.slow.Faults...)
	f.Snapshot.Batches = stuckBatches(f.Batches)
	f.hold()
	s.last = f
	return f
}

// hold takes the expected ends from batches that something keeps.
func (f *fleet) hold() {
	problems := state.Problems(f.Snapshot)
	f.Batches = slices.Clone(f.Batches) // other looks share them
	for i := range f.Batches {
		f.Batches[i].hold(problems)
	}
}

// unread is the fault of a part of which nothing is shown. It is nil if the part could be read.
func (f *fleet) unread(part state.Part, shown int) error {
	if err := f.Unread(part); err != nil && shown == 0 {
		return fmt.Errorf("the page cannot read %s: %w", part, err)
	}
	return nil
}

func (s *Server) lookDead(ctx context.Context, f *fleet) (err error) {
	if s.config.Dead == nil {
		return nil
	}
	if f.Dead, err = s.config.Dead.Count(ctx, deadtasks.Filter{}); err == nil {
		f.DeadLately, err = s.config.Dead.Count(ctx, deadtasks.Filter{Since: f.At.Add(-deadSince)})
	}
	return err
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
