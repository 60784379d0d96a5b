package scheduler_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
)

// flowTask is a task of one flow.
type flowTask struct {
	ID, Flow, Priority string
}

func (flowTask) TaskType() string { return "flow" }

func (f flowTask) TaskOptions() tasks.Options { return tasks.Options{ID: f.ID} }

func (f flowTask) Charges() []reservations.Charge {
	return []reservations.Charge{{
		Limit: "openai", Tokens: reservations.Tokens{"requests": 1}, Flow: f.Flow, Priority: f.Priority,
	}}
}

// flowWorld enqueues reserved tasks, and returns their places.
type flowWorld struct {
	*testing.T

	limiter *reservations.Limiter
	s       *scheduler.Scheduler
}

func newFlowWorld(t *testing.T, client redis.UniversalClient, l reservations.Limit) flowWorld {
	t.Helper()
	w := flowWorld{T: t, limiter: limiter(t, memstore.New(), l)}
	w.s = newScheduler(t, client, w.limiter, exact())
	return w
}

func (w flowWorld) enqueue(priority string, flows ...string) {
	w.Helper()
	for _, id := range flows {
		_, err := w.s.Enqueue(w.Context(), flowTask{ID: id, Flow: id[:1], Priority: priority})
		if err != nil {
			w.Fatal(err)
		}
	}
}

// order returns the tasks sorted by position.
func (w flowWorld) order(ids ...string) []string {
	w.Helper()
	order := make([]string, len(ids))
	for _, id := range ids {
		e, err := w.s.Explain(w.Context(), "default", id)
		if err != nil || e.Waits == nil || e.Waits.Position < 1 || e.Waits.Position > len(ids) {
			w.Fatalf("%s: %+v, %v", id, e.Waits, err)
		}
		order[e.Waits.Position-1] = id
	}
	return order
}

// Waiting tasks keep their places when the weight of their flow changes. Later tasks wait by the new weight.
func TestWeightsChangeWhileTasksWait(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		l := perSecond(.001, 1)
		l.Weights = map[string]float64{"a": 2}
		w := newFlowWorld(t, client, l)
		w.enqueue("", "a1", "a2", "a3", "a4", "b1", "b2")
		before := []string{"a1", "b1", "a2", "a3", "b2", "a4"}
		if d := cmp.Diff(before, w.order(before...)); d != "" {
			t.Errorf("order (-want +got):\n%s", d)
		}
		l.Weights = map[string]float64{"a": .5, "b": 10, "c": 10}
		if err := w.limiter.SetLimits([]reservations.Limit{l}); err != nil {
			t.Fatal(err)
		}
		w.enqueue("", "c1", "c2", "c3", "b3")
		after := []string{"a1", "b1", "c1", "c2", "c3", "a2", "a3", "b2", "a4", "b3"}
		if d := cmp.Diff(after, w.order(after...)); d != "" {
			t.Errorf("order after the change (-want +got):\n%s", d)
		}
	})
}

// A task whose priority was removed from its limit waits with the lowest one, and Explain names that.
func TestAPriorityThatIsGone(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		l := perSecond(.001, 1)
		l.Priorities = map[string]float64{"high": 3, "low": 1}
		w := newFlowWorld(t, client, l)
		w.enqueue("low", "a1", "a2", "a3")
		w.enqueue("high", "b1", "b2", "b3")
		want := []string{"b1", "a1", "b2", "b3", "a2", "a3"}
		if d := cmp.Diff(want, w.order(want...)); d != "" {
			t.Errorf("order (-want +got):\n%s", d)
		}
		charge := reservations.Charge{
			Limit: "openai", Tokens: reservations.Tokens{"requests": 1}, Flow: "c", Priority: "gone",
		}
		task := waitlist.Task{Queue: "default", ID: putBack(t, client, flowTask{ID: "c1"})}
		turn, err := inside.Of(w.s).Arrive(t.Context(), task, []reservations.Charge{charge})
		if err != nil {
			t.Fatal(err)
		}
		outcomes, err := inside.Of(w.limiter).Reserve(t.Context(), charge)
		if err != nil {
			t.Fatal(err)
		}
		_ = inside.Of(w.s).Wait(t.Context(), task, turn, dispatcher.Stop{Charge: charge, Outcome: outcomes[0]})
		e, err := w.s.Explain(t.Context(), task.Queue, task.ID)
		if err != nil {
			t.Fatal(err)
		}
		if got := e.Waits; got.Priority != "low" || got.PriorityWeight != 1 || got.Flow != "c" || got.Weight != 1 ||
			got.FlowTasks != 1 || got.Flows != 3 || got.Position != 5 {
			t.Errorf("%+v", got)
		}
		list, err := inside.Of(w.s).Waitlist(t.Context(), "openai")
		if err != nil {
			t.Fatal(err)
		}
		flows := []dispatcher.FlowTasks{{Flow: "b", Tasks: 3}, {Flow: "a", Tasks: 3}, {Flow: "c", Tasks: 1}}
		if d := cmp.Diff(flows, list.Flows); d != "" || list.FlowCount != 3 {
			t.Errorf("flows (-want +got):\n%s", d)
		}
	})
}
