package dispatcher

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/reservations"
)

const (
	// reportEvery is how long answers of buckets gather before they are sent to the dispatcher.
	reportEvery = 30 * time.Millisecond
	// reportSoon is the same for a call in flight that ended: its slot is idle until the next task has it.
	reportSoon = 5 * time.Millisecond
	// reportTogether is how many answers and tasks one script takes: Redis does nothing else meanwhile.
	reportTogether = 256
)

// reporter sends the newest answer of each bucket to the dispatcher, with the tasks that began. It never loses a
// task that began: otherwise the dispatcher would promote the task again. Safe for concurrent use.
type reporter struct {
	list   *waitlist.Waitlist
	logger *slog.Logger

	sending chan struct{} // holds one: one report at a time, so that answers are sent in order

	mu      sync.Mutex // guards what is below
	answers map[reservations.BucketName]reported
	begun   []waitlist.Task
	timer   *time.Timer   // of the next report; nil if none is planned
	soon    bool          // a call in flight ended since the last one
	pause   time.Duration // after an error; zero when there was none
	closing bool          // no report is planned: what is queued is about to be sent
	done    sync.WaitGroup
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
		list: list, logger: logger, answers: map[reservations.BucketName]reported{}, sending: make(chan struct{}, 1),
	}
}

// answer queues an answer of a bucket. Sooner says that waiting tasks may start earlier by it.
func (r *reporter) answer(name reservations.BucketName, b bucket.Bucket, sooner bool) {
	r.add(name, reported{bucket: b, came: time.Now(), sooner: sooner})
}

// joins queues the answer that has a task join the waitlist of the bucket, for the call that has it join.
func (r *reporter) joins(name reservations.BucketName, b bucket.Bucket) {
	r.add(name, reported{bucket: b, came: time.Now(), joins: true})
}

func (r *reporter) add(name reservations.BucketName, a reported) {
	if a.bucket.At.IsZero() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[name] = r.answers[name].with(a)
	if !a.joins { // else the one that joins sends it
		r.plan(a.sooner && a.bucket.InFlight())
	}
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
	r.plan(false)
}

// plan plans a report of what is queued. It requires that mu is held.
func (r *reporter) plan(soon bool) {
	wait := reportEvery
	if soon {
		wait = reportSoon
	}
	switch {
	case r.closing:
	case r.timer == nil:
		r.done.Add(1)
		r.timer, r.soon = time.AfterFunc(max(wait, r.pause), r.send), soon
	case soon && !r.soon:
		if r.soon = true; r.pause == 0 && r.timer.Stop() {
			r.timer.Reset(wait)
		}
	}
}

// send sends what is queued, and plans the next report where something is left.
func (r *reporter) send() {
	defer r.done.Done()
	err := r.flush(context.Background())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timer, r.pause = nil, PauseAfter(err, r.pause)
	if err != nil {
		r.logger.Warn("answers of buckets not reported, will try again", slog.Any("error", err))
	}
	if len(r.answers)+len(r.begun) > 0 {
		r.plan(r.soon)
	}
}

// flush sends all that is queued. What could not be sent stays queued.
func (r *reporter) flush(ctx context.Context) error {
	return r.with(ctx, func(last waitlist.Reported) error {
		if len(last.Answers)+len(last.Begun) == 0 {
			return nil
		}
		return r.list.Report(ctx, last) //nolint:wrapcheck // it says what failed
	})
}

// with sends all that is queued, the last of it by send. What could not be sent stays queued.
func (r *reporter) with(ctx context.Context, send func(waitlist.Reported) error) error {
	r.sending <- struct{}{}
	defer func() { <-r.sending }()
	for {
		answers, begun, more := r.take()
		some := waitlist.Reported{Answers: r.encode(answers), Begun: begun}
		var err error
		if more {
			err = r.list.Report(ctx, some)
		} else {
			err = send(some)
		}
		if err != nil {
			r.putBack(answers, begun)
		}
		if err != nil || !more {
			return err //nolint:wrapcheck // it says what failed
		}
	}
}

// encode leaves out an answer that can't be encoded: a retry does not help.
func (r *reporter) encode(answers map[reservations.BucketName]reported) []waitlist.Answer {
	sent := make([]waitlist.Answer, 0, len(answers))
	for name, a := range answers {
		state, err := json.Marshal(a.bucket)
		if err != nil {
			r.logger.Warn("state of a bucket not reported", slog.String("bucket", name.String()), slog.Any("error", err))
			delete(answers, name)
			continue
		}
		sent = append(sent, waitlist.Answer{
			Bucket: name.String(), Generation: a.bucket.Generation, Version: a.bucket.Version,
			Store: a.bucket.At.Add(time.Since(a.came)), State: state, Sooner: a.sooner, Joins: a.joins,
		})
	}
	return sent
}

// take takes what one script sends. More says that something is left.
func (r *reporter) take() (some map[reservations.BucketName]reported, begun []waitlist.Task, more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.soon = false
	some = map[reservations.BucketName]reported{}
	for name, a := range r.answers {
		if len(some) == reportTogether {
			break
		}
		some[name] = a
		delete(r.answers, name)
	}
	n := min(len(r.begun), reportTogether)
	begun = r.begun[:n:n]
	if r.begun = r.begun[n:]; len(r.begun) == 0 {
		r.begun = nil
	}
	return some, begun, len(r.answers)+len(r.begun) > 0
}

func (r *reporter) putBack(answers map[reservations.BucketName]reported, begun []waitlist.Task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, a := range answers {
		r.answers[name] = a.with(r.answers[name])
	}
	r.begun = append(begun, r.begun...)
	r.plan(false)
}

// close ends the reports, and sends what is left while ctx lets it. An answer that comes meanwhile, or later, begins
// them again.
func (r *reporter) close(ctx context.Context) error {
	r.mu.Lock()
	if r.closing = true; r.timer != nil && r.timer.Stop() {
		r.timer = nil
		r.done.Done()
	}
	r.mu.Unlock()
	r.done.Wait()
	r.mu.Lock()
	r.closing, r.pause = false, 0
	r.mu.Unlock()
	return r.flush(ctx)
}
