package fleets_test

import (
	"errors"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/headwaytest"
	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// takeover is the longest time until another worker is on duty.
const takeover = 2 * time.Second

// The dispatcher on duty fails while tasks wait. Another worker goes on within two seconds, and the limit is used but
// for that time.
func TestDispatcherFails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		fail    func(f *fleet, number int)
		held    int // tasks that the failed worker may hold
		retries int // tasks that may use a retry
	}{
		// The tasks of the killed worker come back when asynq's leases have ended.
		{"killed", func(f *fleet, n int) { f.kill(n) }, 20, 20},
		{"cut off", func(f *fleet, n int) { f.Worker(n).CutOff(10 * time.Second) }, 20, 1},
		{"stopped", func(f *fleet, n int) { f.Worker(n).Stop() }, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, world{limits: []reservations.Limit{requestsOnly}, provider: usual}, func(f *fleet) {
				const count = 300
				f.Backlog(count, numbered)
				f.start(size)
				f.await(count / 3)
				number, duties := f.dispatcher()
				c.fail(f, number)
				took := f.awaitOther(duties)
				if took > takeover {
					t.Errorf("another worker was on duty after %v", took)
				}
				r := f.end(count)
				retried := map[string]bool{}
				for _, m := range f.made() {
					if m.attempt > 1 {
						retried[m.task] = true
					}
				}
				nth := count - c.held
				lost := f.first(nth).Sub(f.first(1)) - time.Duration(nth-5)*time.Second/10
				t.Logf("another worker after %v; %v of the limit were not used until start %d; %d retries, %.3f deliveries",
					took, lost, nth, len(retried), r.Deliveries)
				// A task may have woken the worker that is cut off: another one finds it at its net.
				if lost > takeover+time.Second {
					t.Errorf("%v of the limit were not used", lost)
				}
				if len(retried) > c.retries {
					t.Errorf("%d tasks have used a retry", len(retried))
				}
			})
		})
	}
}

// Tasks that must start within some seconds wait for a limit that becomes slow. The dispatchers that would end them are
// killed before and during that. Each task starts in time, or ends as expired, once.
func TestExpiredOnceWhenDispatchersAreKilled(t *testing.T) {
	api := headwaytest.Provider{Latency: headwaytest.Between(time.Millisecond, 2*time.Millisecond)}
	in(t, world{limits: []reservations.Limit{limit(perSecond(20, 5))}, provider: api}, func(f *fleet) {
		const count, within = 200, 15 * time.Second
		expired := map[string]int{}
		f.start(size, worker.Config{Events: []func(worker.Event){func(e worker.Event) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if e.Kind == worker.KindRejected && errors.Is(e.Err, tasks.ErrExpired) {
				expired[e.Task.ID]++
			}
		}}})
		f.Run(3 * time.Second)
		by := time.Now().Add(within)
		f.Backlog(count, numbered, tasks.Options{StartBy: by})
		f.SetLimits(limit(perSecond(3, 5)))
		for _, before := range []time.Duration{5 * time.Second, 500 * time.Millisecond} {
			f.Run(time.Until(by.Add(-before)))
			number, duties := f.dispatcher()
			f.kill(number)
			f.Restart(number)
			f.awaitOther(duties)
		}
		f.Drain(patience)
		f.Run(time.Second) // the last event of a task comes before asynq archives it
		r := f.Report()
		archived, err := f.inspector().ListArchivedTasks(envelope.QueueDefault, asynq.PageSize(count))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range f.made() {
			if m.at.After(by) {
				t.Errorf("task %s started %v too late", m.task, m.at.Sub(by))
			}
		}
		for _, a := range archived {
			if expired[a.ID] == 0 {
				t.Errorf("task %s was archived, and not as expired: %s", a.ID, a.LastErr)
			}
		}
		t.Logf("%d done, %d archived, %d expired", r.Done, len(archived), len(expired))
		if r.Done+len(archived) != count || r.Left > 0 || r.Lost > 0 || r.Violations > 0 || r.Done < 45 {
			t.Errorf("%d tasks were archived, %d expired: %v", len(archived), len(expired), r)
		}
		for id, n := range expired {
			if n != 1 {
				t.Errorf("task %s expired %d times", id, n)
			}
		}
	})
}
