package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/longtest"
)

// placesLost returns the most places that a task lost between its enqueueing and its first start, as a share of all
// started tasks. The IDs of smallChats are in the order of enqueueing. It ignores the tasks of except.
func (f *figures) placesLost(except map[string]bool) (share float64, task string) {
	var started []string
	seen := map[string]bool{}
	for _, id := range f.Order {
		if !seen[id] && !except[id] {
			started = append(started, id)
		}
		seen[id] = true
	}
	most := 0
	for i, id := range slices.Sorted(slices.Values(started)) {
		if lost := slices.Index(started, id) - i; lost > most {
			most, task = lost, id
		}
	}
	return float64(most) / max(1, float64(f.tasks)), task
}

// wantInOrder fails if a task lost more than 1 % of the places, plus the starts during a stall of the machine: a task
// of a delayed worker loses as many. If at once is true, a task may lose as many more as can start by the first answers
// of the bucket: the fleet begins with a backlog that is in no waitlist, and no order is promised within a round trip.
func (f *figures) wantInOrder(t *testing.T, except map[string]bool, atOnce bool) {
	t.Helper()
	share, task := f.placesLost(except)
	m := f.Meters["requests"]
	most := 0.01 + m.Rate*f.stood.Seconds()/float64(f.tasks)
	if atOnce {
		most += (m.Capacity + m.Rate*bucket.Hold.Seconds()) / float64(f.tasks)
	}
	t.Logf("most places lost: %.2f %% (task %s), %d tasks left out", 100*share, task, len(except))
	if share > most {
		t.Errorf("task %s lost %.2f %% of the places, wanted at most %.2f %%", task, 100*share, 100*most)
	}
}

// deliveriesMost is the largest average number of deliveries per task: once to wait, and once to start.
const deliveriesMost = 2.05

// wantFewDeliveries fails if tasks were delivered more often than deliveriesMost.
func (f *figures) wantFewDeliveries(t *testing.T) {
	t.Helper()
	if f.deliveries > deliveriesMost {
		t.Errorf("%.3f deliveries a task, wanted at most %g", f.deliveries, deliveriesMost)
	}
}

// active returns the tasks that workers hold, by the provider's names.
func (w *world) active(t *testing.T) map[string]bool {
	t.Helper()
	held, err := w.inspector.ListActiveTasks(queue, asynq.PageSize(1000))
	if err != nil {
		t.Fatalf("list the active tasks: %v", err)
	}
	names := map[string]bool{}
	for _, task := range held {
		var payload struct {
			Name string `json:"custom_id"`
		}
		if err := json.Unmarshal(task.Payload, &payload); err != nil || payload.Name == "" {
			t.Fatalf("read the payload of an active task: %v: %s", err, task.Payload)
		}
		names[payload.Name] = true
	}
	return names
}

// killAll ends all workers like kill -9, and returns the tasks that they held.
func (w *world) killAll(t *testing.T) map[string]bool {
	t.Helper()
	for _, p := range w.workers {
		_ = p.cmd.Process.Kill() // waited for below
	}
	for _, p := range w.workers {
		p.kill()
	}
	t.Logf("killed: %s", describe(w.info(t)))
	return w.active(t)
}

// Tasks arrive while the fleet runs, and the bucket promises tokens to at most 50 of them.
//
//nolint:paralleltest // measures a limit: it has the machine for itself
func TestDeliveriesOfBoundedPlan(t *testing.T) {
	longtest.Only(t, 35*time.Second)
	const tasks = 1000
	s := requestsOnly
	s.limit = "{meters: {requests: {rate: 50/s, capacity: 5, max_reserved: 50}}}"
	w := newWorld(t, s)
	w.start(t, fleet)
	w.awaitWorkers(t)
	w.enqueue(t, smallChats(1, tasks))
	w.awaitCompleted(t, tasks)
	w.wantNoRetries(t)
	f := w.finish(t)
	f.wantOnce(t, tasks)
	f.wantUsed(t, f.Utilization, 0.97)
	f.wantFewDeliveries(t)
}

// All workers are killed, and new ones start 15 s later. Tasks of the killed workers come back after asynq's lease,
// at its first look 60 s after the start. They do not count for the order. What starts after the kill is in order,
// whether the tasks were reserved or not: they all wait already.
//
//nolint:paralleltest // measures a limit: it has the machine for itself
func TestOrderAfterKill(t *testing.T) {
	longtest.Only(t, 200*time.Second)
	for _, reserved := range []bool{false, true} {
		t.Run(fmt.Sprintf("reserved=%t", reserved), func(t *testing.T) {
			const tasks = 1200
			w := newWorld(t, requestsOnly)
			var flags []string
			if reserved {
				flags = []string{"--reserve"}
			}
			w.enqueue(t, smallChats(1, tasks), flags...)
			w.start(t, fleet)
			w.awaitCompleted(t, tasks/3)
			held := w.killAll(t)
			before := maps.Clone(held)
			for _, id := range w.report(t).Order {
				before[id] = true
			}
			pass(t, 15*time.Second)
			w.start(t, fleet)
			w.awaitCompleted(t, tasks-len(held))
			w.awaitCompleted(t, tasks)
			f := w.finish(t)
			if f.tasks != tasks {
				t.Errorf("%d tasks have started, wanted %d", f.tasks, tasks)
			}
			f.wantFewDeliveries(t)
			f.wantInOrder(t, held, !reserved)
			f.wantInOrder(t, before, false)
		})
	}
}

// MongoDB does not answer for 8 s.
//
//nolint:paralleltest // measures a limit: it has the machine for itself
func TestOrderAfterStoreAway(t *testing.T) {
	longtest.Only(t, 40*time.Second)
	const tasks, away = 1000, 8 * time.Second
	s := requestsOnly
	s.cutMongo = true
	w := newWorld(t, s)
	w.enqueue(t, smallChats(1, tasks), "--reserve")
	w.start(t, fleet)
	w.awaitCompleted(t, tasks/3)
	w.mongoProxy.Pause()
	pass(t, away)
	w.mongoProxy.Resume()
	w.awaitCompleted(t, tasks)
	w.wantNoRetries(t)
	f := w.finish(t)
	f.wantOnce(t, tasks)
	f.wantInOrder(t, nil, false)
	if f.LongestGapSeconds < away.Seconds()/2 {
		t.Errorf("the longest gap is %.1f s: the store was not away", f.LongestGapSeconds)
	}
}

// The rate is halved, and then set to twice its first value, which the provider allows all the time.
//
//nolint:paralleltest // measures a limit: it has the machine for itself
func TestOrderAfterRateChanges(t *testing.T) {
	longtest.Only(t, 40*time.Second)
	const tasks, capacity = 1200, 10
	w := newWorld(t, setting{
		limit:    "{meters: {requests: {rate: 50/s, capacity: 10}}}",
		provider: []string{"-requests-rate=100", "-requests-capacity=10"},
	})
	w.enqueue(t, smallChats(1, tasks), "--reserve")
	w.start(t, fleet)
	w.awaitCompleted(t, 200)
	t.Log(w.worker(t, "limits", "set", "openai.requests", "25/s"))
	halved := phase{name: "halved", rate: 25, from: time.Now()}
	pass(t, 10*time.Second)
	halved.to = time.Now()
	t.Log(w.worker(t, "limits", "set", "openai.requests", "100/s"))
	doubled := phase{name: "doubled", rate: 100, from: time.Now()}
	w.awaitCompleted(t, tasks-20)
	doubled.to = time.Now().Add(-time.Second)
	w.awaitCompleted(t, tasks)
	w.wantNoRetries(t)
	f := w.finish(t)
	f.wantOnce(t, tasks)
	halved.want(t, &f, capacity)
	doubled.want(t, &f, capacity)
	f.wantInOrder(t, nil, false)
	f.wantFewDeliveries(t)
}

// 3000 tasks of one flow wait, and 1000 of them are cancelled from the middle.
//
//nolint:paralleltest // measures a limit: it has the machine for itself
func TestOrderAfterCancel(t *testing.T) {
	longtest.Only(t, 50*time.Second)
	const third = 1000
	w := newWorld(t, setting{
		limit:    "{meters: {requests: {rate: 100/s, capacity: 10}}}",
		provider: []string{"-requests-rate=100", "-requests-capacity=10"},
	})
	var batches []string
	for i := range 3 {
		batches = append(batches, w.enqueue(t, smallChats(1+i*third, third), "--reserve", "--flow", "all"))
	}
	w.start(t, fleet)
	w.awaitCompleted(t, 200)
	r := command(t, "headway", w.env(w.redis.URL()), "", "cancel", batches[1], "--json", "--config", w.config)
	var got struct{ Withdrawn, Running int }
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || r.code != 0 || got.Withdrawn != third {
		t.Fatalf("cancel: exit %d, %v: %s%s", r.code, err, r.out, r.err)
	}
	w.awaitCompleted(t, 2*third)
	w.wantNoRetries(t)
	f := w.finish(t)
	f.wantOnce(t, 2*third)
	f.wantUsed(t, f.Utilization, 0.97)
	f.wantInOrder(t, nil, false)
	f.wantFewDeliveries(t)
}
