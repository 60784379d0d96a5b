package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// A backlog of tasks that arrived unreserved is sorted without delivering each of them only to send it back: a process whose task has to wait takes
// many of those that stand next, has the buckets give them their times, and lets them stand in line, as if they had been reserved when they were enqueued.

const (
	// sortFrom is how many tasks of a queue are pending at least when it is sorted. Fewer are delivered before it is worth it.
	sortFrom = 64
	// sortPause is how long a queue is left alone after it was sorted.
	sortPause = time.Second
	// sortNet is when asynq delivers tasks that were taken, should the process be killed before they stand in line.
	sortNet = 15 * time.Second
)

// Pricer tells what a task of a backlog takes. Tasks with an error, or without charges, are not sorted but delivered as ever. Called from one goroutine for each
// queue; it must not panic.
type Pricer func(*asynq.Task) ([]reservations.Charge, error)

// sorter sorts the backlogs of queues, one goroutine for each. The zero value sorts nothing until it is opened.
type sorter struct {
	mu    sync.Mutex           // guards what is below
	ctx   context.Context      //nolint:containedctx // what is under way ends with it
	stop  chan struct{}        // closed when no more is taken; nil before it is opened and after it is closed
	after map[string]time.Time // queues, and when they may be sorted next; far away while they are
	all   sync.WaitGroup
}

// open lets the sorting begin. What is under way ends with ctx.
func (s *sorter) open(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ctx, s.stop, s.after = ctx, make(chan struct{}), map[string]time.Time{}
}

// close lets nothing more be taken. Done is closed when nothing is under way any more.
func (s *sorter) close() (done <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop != nil {
		close(s.stop)
		s.stop = nil
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.all.Wait()
	}()
	return ended
}

// begin repeats some until it says that nothing is left, in a goroutine of its own, unless the queue is being sorted or was just now.
func (s *sorter) begin(queue string, some func(context.Context) (more bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.stop == nil || now.Before(s.after[queue]) {
		return
	}
	s.after[queue] = now.Add(reservations.MaxWait)
	ctx, stop := s.ctx, s.stop
	s.all.Go(func() {
		for some(ctx) {
			select {
			case <-stop:
				return
			default:
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.after[queue] = time.Now().Add(sortPause)
	})
}

// Sort gives the tasks that wait in a queue to be delivered for the first time their times at once, while there are many: call it when one of them was told to wait. It never
// blocks: the work is done in the background, until few are left or most of them have no limit. Told hears how many were given their times, may be nil, and is called
// several times. Between Start and Stop only; else, without a limiter, and while the queue is being sorted, Sort does nothing.
//
// A task is asynq's to deliver all the time: where the process is killed, or Redis or a bucket does not answer, it is delivered as if it had never been sorted.
func (s *Scheduler) Sort(queue string, price Pricer, told func(tasks int)) {
	if s.limiter == nil {
		return
	}
	s.sorter.begin(queue, func(ctx context.Context) bool {
		placed, more, err := s.sortSome(ctx, queue, price)
		if placed > 0 && told != nil {
			told(placed)
		}
		if err != nil {
			s.config.Logger.WarnContext(ctx, "backlog not sorted, its tasks are delivered one by one", slog.String("queue", queue), slog.Any("error", err))
		}
		return more && err == nil
	})
}

// sortSome sorts the tasks that stand next. More says whether to go on: most of them were given their times. What can't be is put back, in its order.
func (s *Scheduler) sortSome(ctx context.Context, queue string, price Pricer) (placed int, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, afterTimeout)
	defer cancel()
	all, err := s.taker.take(ctx, queue, reserveTogether, sortFrom, sortNet)
	if err != nil || len(all) == 0 {
		return 0, false, err
	}
	var batch []*parcel
	for _, t := range all {
		if charges := s.priced(t, price); len(charges) > 0 {
			batch = append(batch, sorted(queue, t, charges))
		}
	}
	_, refused := s.reserveBatch(ctx, batch)
	waiting := reservedOf(batch)
	err = errors.Join(refused, s.standInLine(ctx, queue, waiting))
	stands := map[string]bool{}
	for _, p := range waiting {
		stands[p.info.ID] = p.err == nil
		if p.err == nil {
			placed++
		}
	}
	var back dueTasks
	for _, t := range all {
		if !stands[t.id] {
			back.ordinary = append(back.ordinary, Task{Queue: queue, ID: t.id})
		}
	}
	if len(back.ordinary) > 0 {
		_, unreturned := s.waker.rouser.rouse(ctx, queue, back) // else asynq has them
		err = errors.Join(err, unreturned)
	}
	return placed, 2*placed > len(all), err
}

// priced is what the task takes; nothing where that can't be told, or never be served.
func (s *Scheduler) priced(t taken, price Pricer) []reservations.Charge {
	if t.task == nil {
		return nil
	}
	charges, err := price(t.task)
	if err != nil {
		return nil
	}
	if s.check(tasks.Envelope{Task: t.task, Charges: charges}) != nil {
		return nil
	}
	return charges
}

// sorted is a task on its way from asynq to a line.
func sorted(queue string, t taken, charges []reservations.Charge) *parcel {
	p := &parcel{Envelope: tasks.Envelope{Task: t.task, Charges: charges}, info: &asynq.TaskInfo{ID: t.id, Queue: queue}}
	p.Options.ID = t.id
	return p
}

// reservedOf are those that were given a time.
func reservedOf(batch []*parcel) (reserved []*parcel) {
	for _, p := range batch {
		if p.reserved() {
			reserved = append(reserved, p)
		}
	}
	return reserved
}

var errUnwatched = errors.New("the time of a task could not be noted")

// standInLine lets tasks of one queue that were given a time stand in line, and gives their places back where that can't be noted: those have an error.
func (s *Scheduler) standInLine(ctx context.Context, queue string, waiting []*parcel) error {
	at := map[string]time.Time{}
	for _, p := range waiting {
		at[p.info.ID] = p.at
	}
	if err := s.taker.delay(ctx, queue, at); err != nil {
		for _, p := range waiting {
			p.err = errUnwatched
		}
		s.giveBack(ctx, waiting)
		return err
	}
	var unwatched []*parcel
	for _, line := range byLine(waiting) {
		unwatched = append(unwatched, s.recordLine(ctx, line)...)
	}
	for _, p := range unwatched {
		p.err = errUnwatched
	}
	s.giveBack(ctx, unwatched)
	return nil
}
