package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/waitlist"
)

const (
	// reportEvery is how long answers of buckets gather before they are sent to the dispatcher.
	reportEvery = 30 * time.Millisecond
	// reportSoon is the same for a call in flight that ended: its slot is idle until the next task has it.
	reportSoon = 5 * time.Millisecond
	// reportPause is how soon a report is sent again after an error. It doubles, up to reportPauseMost.
	reportPause     = 100 * time.Millisecond
	reportPauseMost = 2 * time.Second
	// reportTogether is how many answers and tasks one script takes: Redis does nothing else meanwhile.
	reportTogether = 256
)

// reporter sends the newest answer of each bucket to the dispatcher, with the tasks that began. It never loses a
// task that began: otherwise the dispatcher would promote the task again. Safe for concurrent use.
type reporter struct {
	list   *waitlist.Waitlist
	logger *slog.Logger

	sending sync.Mutex // one report at a time, so that answers are sent in order

	mu      sync.Mutex // guards what is below
	answers map[string]reported
	begun   []waitlist.Task
	running bool
	stop    chan struct{} // closed by close
	done    sync.WaitGroup

	hurry chan struct{} // holds one: report soon
}

// reported is a bucket's answer, and when it came by this machine's clock.
type reported struct {
	bucket bucket.Bucket
	came   time.Time
	sooner bool
	joins  bool // a task is about to join the waitlist
}

func newReporter(list *waitlist.Waitlist, logger *slog.Logger) *reporter {
	return &reporter{
		list: list, logger: logger, answers: map[string]reported{}, stop: make(chan struct{}),
		hurry: make(chan struct{}, 1),
	}
}

// answer queues an answer of a bucket. Sooner says that waiting tasks may start earlier by it.
func (r *reporter) answer(name string, b bucket.Bucket, sooner bool) {
	r.add(name, reported{bucket: b, came: time.Now(), sooner: sooner})
	if sooner && slices.ContainsFunc(b.Meters, func(m bucket.Balance) bool { return m.Filling.InFlight }) {
		select {
		case r.hurry <- struct{}{}:
		default: // it is about to see that
		}
	}
}

// joins queues the answer that has a task join the waitlist of the bucket.
func (r *reporter) joins(bucket string, b bucket.Bucket) {
	r.add(bucket, reported{bucket: b, came: time.Now(), joins: true})
}

func (r *reporter) add(bucket string, a reported) {
	if a.bucket.At.IsZero() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[bucket] = r.answers[bucket].with(a)
	r.run()
}

// with is the newer of two answers, with what both ask for.
func (r reported) with(other reported) reported {
	newest := r
	if other.bucket.Newer(r.bucket) || r.bucket.At.IsZero() {
		newest = other
	}
	newest.sooner, newest.joins = r.sooner || other.sooner, r.joins || other.joins
	return newest
}

// began queues a task that started: it waits no more.
func (r *reporter) began(t waitlist.Task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun = append(r.begun, t)
	r.run()
}

// run starts a goroutine that sends until nothing is left. It requires that mu is held.
func (r *reporter) run() {
	if r.running {
		return
	}
	r.running = true
	r.done.Go(r.send)
}

func (r *reporter) send() {
	wait := reportEvery
	for {
		timer, hurry := time.NewTimer(wait), r.hurry
		if wait > reportEvery { // after an error
			hurry = nil
		}
		select {
		case <-timer.C:
		case <-hurry:
			timer.Stop()
			<-time.After(reportSoon)
		case <-r.stop:
			timer.Stop()
			r.end()
			return
		}
		err := r.flush(context.Background())
		if wait = reportEvery; err != nil {
			wait = min(max(reportPause, 2*wait), reportPauseMost)
			r.logger.Warn("answers of buckets not reported, will try again", slog.Any("error", err))
		}
		if r.end() {
			return
		}
	}
}

// end says whether nothing is left to send.
func (r *reporter) end() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.stop:
		r.running = false
	default:
		r.running = len(r.answers)+len(r.begun) > 0
	}
	return !r.running
}

// flush sends all that is queued. What could not be sent stays queued.
func (r *reporter) flush(ctx context.Context) error {
	r.sending.Lock()
	defer r.sending.Unlock()
	for {
		answers, begun := r.take()
		if len(answers)+len(begun) == 0 {
			return nil
		}
		if err := r.sendSome(ctx, answers, begun); err != nil {
			r.putBack(answers, begun)
			return err
		}
	}
}

func (r *reporter) sendSome(ctx context.Context, answers map[string]reported, begun []waitlist.Task) error {
	sent := make([]waitlist.Answer, 0, len(answers))
	var faults []error
	for name, a := range answers {
		state, err := json.Marshal(a.bucket)
		if err != nil {
			faults = append(faults, fmt.Errorf("encode bucket %s: %w", name, err))
			delete(answers, name) // a retry does not help
			continue
		}
		sent = append(sent, waitlist.Answer{
			Bucket: name, Generation: a.bucket.Generation, Version: a.bucket.Version,
			Store: a.bucket.At.Add(time.Since(a.came)), State: state, Sooner: a.sooner, Joins: a.joins,
		})
	}
	return errors.Join(errors.Join(faults...), r.list.Report(ctx, sent, begun))
}

// take takes what one script sends.
func (r *reporter) take() (map[string]reported, []waitlist.Task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	some := map[string]reported{}
	for name, a := range r.answers {
		if len(some) == reportTogether {
			break
		}
		some[name] = a
		delete(r.answers, name)
	}
	n := min(len(r.begun), reportTogether)
	begun := r.begun[:n:n]
	if r.begun = r.begun[n:]; len(r.begun) == 0 {
		r.begun = nil
	}
	return some, begun
}

func (r *reporter) putBack(answers map[string]reported, begun []waitlist.Task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, a := range answers {
		r.answers[name] = a.with(r.answers[name])
	}
	r.begun = append(begun, r.begun...)
}

// close ends the goroutine, and sends what is left while ctx lets it.
func (r *reporter) close(ctx context.Context) error {
	r.mu.Lock()
	select {
	case <-r.stop:
	default:
		close(r.stop)
	}
	r.mu.Unlock()
	r.done.Wait()
	err := r.flush(ctx)
	r.mu.Lock()
	r.stop = make(chan struct{}) // a stopped scheduler can be started again
	r.mu.Unlock()
	return err
}
