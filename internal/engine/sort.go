package engine

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/asynqdb"
	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/envelope"
	"github.com/headway-go/headway/internal/waitlist"
	"github.com/headway-go/headway/reservations"
)

// A backlog of tasks that were enqueued without a reservation is sorted. A process whose task has to wait takes many
// tasks from the head of the queue. It puts them into their waitlists, as Reserved does at enqueue. So they are not
// delivered one by one only to be sent back, and they start in the order of their arrival.

const (
	// sortFrom is the smallest number of pending tasks for which a queue is sorted. Fewer are delivered as fast.
	sortFrom = 64
	// sortSoon is how long a queue is left alone after its backlog was sorted. sortPause is how long after an error,
	// or if few tasks have a limit.
	sortSoon  = 50 * time.Millisecond
	sortPause = time.Second
	// sortGate is how long a pass keeps workers from taking the tasks that it sorts. A pass takes longer only where Redis
	// or a bucket does not answer.
	sortGate = asynqdb.TakesFor
	// sortTurn is how often a process looks whether it is its turn to sort.
	sortTurn = 20 * time.Millisecond
	// sortTimeout is Engine.SortTimeout. With AfterTimeout for the rest it is less than sortNet.
	sortTimeout = 4 * time.Second
	// sortNet is when asynq delivers tasks that were taken, if the process is killed before they join.
	sortNet = 15 * time.Second
)

// Pricer returns the charges of a task of a backlog. A task with an error or without charges is not sorted. It is
// called from one goroutine for each queue, and must not panic.
type Pricer func(*asynq.Task) ([]reservations.Charge, error)

// sorter sorts the backlogs of queues, one goroutine for each. The zero value sorts nothing until it is opened.
type sorter struct {
	mu sync.Mutex // guards what is below
	//nolint:containedctx // what is under way ends with running; no more is taken after taking, which is nil before open
	running, taking context.Context
	end             context.CancelFunc   // of taking
	after           map[string]time.Time // by queue, when it may be sorted next; far away while it is being sorted
	began           map[string]time.Time // by queue, when the tasks that are being sorted were taken
	all             sync.WaitGroup
}

// open lets the sorting begin. What is under way ends with ctx.
func (s *sorter) open(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = ctx
	s.taking, s.end = context.WithCancel(ctx)
	s.after, s.began = map[string]time.Time{}, map[string]time.Time{}
}

// close ends the taking of an open sorter. Done is closed when nothing is under way any more.
func (s *sorter) close() (done <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.all.Wait()
	}()
	return ended
}

// begin calls some until it returns a pause, in a goroutine of its own. It does nothing while the queue is being
// sorted or its pause is not over.
func (s *sorter) begin(queue string, some func(context.Context) (pause time.Duration)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.taking == nil || s.taking.Err() != nil || now.Before(s.after[queue]) {
		return
	}
	s.after[queue] = now.Add(bucket.MaxWait)
	running, taking := s.running, s.taking
	s.all.Go(func() {
		pause := some(running)
		for pause == 0 && taking.Err() == nil {
			pause = some(running)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.after[queue] = time.Now().Add(pause)
		delete(s.began, queue)
	})
}

// pass says that this process, or another one, takes tasks of the queue.
func (s *sorter) pass(queue string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began[queue] = time.Now()
}

// Sorting reports whether the backlog of the queue is being sorted, as far as this process has seen. Tasks that can be
// sorted should not be delivered meanwhile.
func (s *Engine) Sorting(queue string) bool {
	s.sorter.mu.Lock()
	defer s.sorter.mu.Unlock()
	return time.Since(s.sorter.began[queue]) < sortGate
}

// Sort puts pending tasks of a queue into their waitlists while there are many. Call it when a task of the queue had to
// wait. It never blocks: the work is done in the background, until few tasks are left or most of them have no limit.
// Joined may be nil; it is called with the number of tasks that joined, several times. Sort does nothing before Start,
// after Stop, without a limiter, and while the queue is being sorted.
//
// Each task stays in a set of asynq. If the process is killed, or Redis or a bucket does not answer, asynq delivers the
// task as if it had not been sorted.
func (s *Engine) Sort(queue string, price Pricer, joined func(tasks int)) {
	if s.limiter == nil {
		return
	}
	s.sorter.begin(queue, func(ctx context.Context) time.Duration {
		n, pause, err := s.sortSome(ctx, queue, price)
		if n > 0 && joined != nil {
			joined(n)
		}
		if err != nil {
			s.log.WarnContext(ctx, "backlog not sorted, its tasks are delivered one by one",
				slog.String("queue", queue), slog.Any("error", err))
		}
		return pause
	})
}

// sortSome sorts the tasks at the head of the queue. The pause is zero where most of them have a limit. Tasks
// without a limit stay where they are; a task that can't join is put back.
func (s *Engine) sortSome(
	ctx context.Context, queue string, price Pricer,
) (joined int, pause time.Duration, err error) {
	reserving, cancel := context.WithTimeout(ctx, s.SortTimeout)
	defer cancel()
	active, pending, err := s.queues.Pending(reserving, queue, ReserveTogether, sortFrom)
	if errors.Is(err, asynqdb.ErrTakenElsewhere) {
		s.sorter.pass(queue)
		select {
		case <-time.After(sortTurn):
		case <-ctx.Done():
		}
		return 0, 0, nil
	}
	if err != nil {
		return 0, sortPause, err
	}
	if len(pending) == 0 {
		return 0, sortSoon, nil
	}
	s.sorter.pass(queue)
	batch, limits, err := s.takeLimited(reserving, queue, active, pending, price)
	if err != nil || 2*limits <= len(pending) {
		pause = sortPause
	}
	if err != nil || len(batch) == 0 {
		return 0, pause, err
	}
	refused := s.ReserveAll(reserving, batch)
	after, done := context.WithTimeout(context.WithoutCancel(ctx), max(AfterTimeout, s.SortTimeout))
	defer done()
	var reserved []*Parcel
	var back []string
	for _, p := range batch {
		if p.Held == nil {
			back = append(back, p.Info.ID)
		} else {
			reserved = append(reserved, p)
		}
	}
	if err = s.joinSorted(after, queue, reserved); err == nil {
		joined = len(reserved)
	}
	if len(back) > 0 {
		_, failed := s.queues.Wake(after, queue, back, 0) // otherwise asynq delivers them a little later
		err = errors.Join(err, failed)
	}
	if err = errors.Join(refused, err); err != nil {
		pause = sortPause
	}
	return joined, pause, err
}

// joinSorted puts tasks of one queue into their waitlists. The times of their nets come last: if the process is killed
// before, asynq delivers waiting tasks too early, and they go back.
func (s *Engine) joinSorted(ctx context.Context, queue string, parcels []*Parcel) error {
	if err := s.JoinAll(ctx, parcels); err != nil {
		s.ReleaseAll(ctx, parcels)
		return err
	}
	at := map[string]time.Time{}
	for _, p := range parcels {
		at[p.Info.ID] = p.At
	}
	gone, err := s.queues.Delay(ctx, queue, at)
	var deleted []waitlist.Task // while they were sorted
	var charges [][]reservations.Charge
	for _, p := range parcels {
		if slices.Contains(gone, p.Info.ID) {
			deleted, charges = append(deleted, waitlist.Task{Queue: queue, ID: p.Info.ID}), append(charges, p.Charges)
		}
	}
	if len(deleted) > 0 {
		err = errors.Join(err, s.LeaveAll(ctx, deleted, charges))
	}
	return err
}

// takeLimited takes the pending tasks that have a limit and do not wait yet; limits is how many have a limit.
// Before that, they and the active tasks arrive, in the order of delivery. So an active task whose bucket answers
// late waits before them, and a task that is delivered after they are taken waits behind them. Several processes may
// sort one queue: the first arrival of a task counts.
func (s *Engine) takeLimited(
	ctx context.Context, queue string, active, pending []asynqdb.Pending, price Pricer,
) (batch []*Parcel, limits int, err error) {
	parcels := map[string]*Parcel{}
	var arrivals []waitlist.Arrival
	for i, t := range slices.Concat(active, pending) {
		if charges := s.priced(t, price); len(charges) > 0 {
			parcels[t.ID] = sorted(queue, t, charges)
			arrivals = append(arrivals, s.arrival(ctx, waitlist.Task{Queue: queue, ID: t.ID}, charges))
			if i >= len(active) {
				limits++
			}
		}
	}
	states, err := s.list.Arrive(ctx, arrivals)
	if err != nil {
		return nil, 0, err
	}
	for i, a := range arrivals {
		if states[i].State != waitlist.StateNew {
			delete(parcels, a.ID)
		}
	}
	var limited, left []string
	for _, t := range active {
		left = append(left, t.ID)
	}
	for _, t := range pending {
		if parcels[t.ID] != nil {
			limited = append(limited, t.ID)
		} else {
			left = append(left, t.ID)
		}
	}
	got, err := s.queues.Take(ctx, queue, limited, left, sortNet)
	for _, id := range got {
		batch = append(batch, parcels[id])
	}
	return batch, limits, err
}

// arrival is a task of a backlog. In which shard of a limit it will wait is not known.
func (s *Engine) arrival(ctx context.Context, t waitlist.Task, charges []reservations.Charge) waitlist.Arrival {
	a := waitlist.Arrival{Task: t, Joins: true}
	for _, c := range charges {
		if s.limiter.Choose(c).Shard == 0 {
			a.Wants = append(a.Wants, s.entry(ctx, t, Turn{Charges: charges}, c))
		}
	}
	return a
}

// priced is the charges of the task; none if they can't be read or can never be served.
func (s *Engine) priced(t asynqdb.Pending, price Pricer) []reservations.Charge {
	if t.Task == nil {
		return nil
	}
	charges, err := price(t.Task)
	if err != nil {
		return nil
	}
	for _, c := range charges {
		if s.Servable(c) != nil {
			return nil
		}
	}
	return charges
}

// sorted is the parcel of a task on its way from asynq to a waitlist.
func sorted(queue string, t asynqdb.Pending, charges []reservations.Charge) *Parcel {
	p := &Parcel{
		Envelope: envelope.Envelope{Task: t.Task, Charges: charges}, Info: &asynq.TaskInfo{ID: t.ID, Queue: queue},
	}
	p.Options.ID = t.ID
	return p
}
