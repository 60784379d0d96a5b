package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"slices"
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
	// sortTimeout bounds the taking and the reserving. With afterTimeout for the rest it is less than sortNet.
	sortTimeout = 4 * time.Second
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

// sortSome sorts the tasks that stand next. More says whether to go on: most of those it looked at were given their times. The others stay where they are; what can't be given a time is
// put back, in its order.
func (s *Scheduler) sortSome(ctx context.Context, queue string, price Pricer) (placed int, more bool, err error) {
	reserving, cancel := context.WithTimeout(ctx, sortTimeout)
	defer cancel()
	all, err := s.taker.peek(reserving, queue, reserveTogether, sortFrom)
	if err != nil || len(all) == 0 {
		return 0, false, err
	}
	batch, err := s.takeLimited(reserving, queue, all, price)
	if err != nil || len(batch) == 0 {
		return 0, false, err
	}
	_, refused := s.reserveBatch(reserving, batch)
	after, done := context.WithTimeout(ctx, afterTimeout)
	defer done()
	waiting := waitingOf(batch)
	err = errors.Join(refused, s.standInLine(after, queue, waiting))
	var back dueTasks
	for _, p := range batch {
		if p.reserved() && p.err == nil {
			placed++
		} else {
			back.ordinary = append(back.ordinary, Task{Queue: queue, ID: p.info.ID})
		}
	}
	if len(back.ordinary) > 0 {
		_, unreturned := s.waker.rouser.rouse(after, queue, back) // else asynq has them
		err = errors.Join(err, unreturned)
	}
	return placed, 2*placed > len(all), err
}

// takeLimited takes the tasks that have a limit, and no place yet: asynq delivers also those whose waker was late.
func (s *Scheduler) takeLimited(ctx context.Context, queue string, all []pendingTask, price Pricer) (batch []*parcel, err error) {
	places, err := s.lines.placed(ctx, queue, all)
	if err != nil {
		return nil, err
	}
	parcels := map[string]*parcel{}
	var wanted, left []string
	for i, t := range all {
		if charges := s.priced(t, price); len(charges) > 0 && !places[i] {
			parcels[t.id] = sorted(queue, t, charges)
			wanted = append(wanted, t.id)
		} else {
			left = append(left, t.id)
		}
	}
	got, err := s.taker.take(ctx, queue, wanted, left, sortNet)
	for _, id := range got {
		batch = append(batch, parcels[id])
	}
	return batch, err
}

// priced is what the task takes; nothing where that can't be told, or never be served.
func (s *Scheduler) priced(t pendingTask, price Pricer) []reservations.Charge {
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
func sorted(queue string, t pendingTask, charges []reservations.Charge) *parcel {
	p := &parcel{Envelope: tasks.Envelope{Task: t.task, Charges: charges}, info: &asynq.TaskInfo{ID: t.id, Queue: queue}}
	p.Options.ID = t.id
	return p
}

var (
	errUnwatched = errors.New("the time of a task could not be noted")
	errGone      = errors.New("the task is gone")
)

// standInLine lets tasks of one queue that were given a time stand in line, and gives their places back where that can't be noted: those have an error. Asynq is told last:
// who is killed before leaves tasks in line which asynq delivers too soon, with their places.
func (s *Scheduler) standInLine(ctx context.Context, queue string, waiting []*parcel) error {
	var unwatched []*parcel
	for _, line := range byLine(waiting) {
		unwatched = append(unwatched, s.recordLine(ctx, line)...)
	}
	for _, p := range unwatched {
		p.err = errUnwatched
	}
	at := map[string]time.Time{}
	for _, p := range waiting {
		if p.err == nil {
			at[p.info.ID] = p.at
		}
	}
	gone, err := s.taker.delay(ctx, queue, at)
	unused, failed := s.leave(ctx, queue, waiting, gone)
	s.giveBack(ctx, append(unwatched, unused...))
	return errors.Join(err, failed)
}

// leave takes tasks out of their lines that were withdrawn, or ended, while they were sorted, and returns those whose places nobody else has given back.
func (s *Scheduler) leave(ctx context.Context, queue string, waiting []*parcel, gone []string) (unused []*parcel, err error) {
	var left []*parcel
	var names []Task
	for _, p := range waiting {
		if slices.Contains(gone, p.info.ID) {
			p.err = errGone
			left, names = append(left, p), append(names, Task{Queue: queue, ID: p.info.ID})
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	places, err := s.lines.recallAll(ctx, names)
	for i, kept := range places {
		if kept.place.State != "" {
			unused = append(unused, left[i])
		}
	}
	return unused, err
}
