package metrics_test

import (
	"errors"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/state/metric"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/metrics"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// ref is one delivery of a task.
func ref(id string) worker.TaskRef {
	return worker.TaskRef{ID: id, Queue: "default", Type: "call", Attempt: 1}
}

// all sends one event of each kind.
func all(e func(worker.Event)) {
	charges := call{Cost: 10}.Charges()
	e(worker.Event{Kind: worker.KindStarted, Task: ref("a"), Charges: charges, Lateness: time.Millisecond})
	e(worker.Event{
		Task: ref("a"), Charges: charges, Used: reservations.Tokens{"tokens": 4}, Kind: worker.KindSucceeded,
		Elapsed: time.Second,
	})
	e(worker.Event{Kind: worker.KindRejected, Task: ref("b"), Err: tasks.ErrExpired})
	e(worker.Event{Kind: worker.KindDeferred, Task: ref("c"), Charge: charges[0]})
	e(worker.Event{Kind: worker.KindSettled, Task: ref("a"), Charge: charges[0], Err: reservations.ErrUnavailable})
	e(worker.Event{Kind: worker.KindSynced, Task: ref("a"), Charge: charges[0]})
	e(worker.Event{
		Task: ref("d"), Charges: charges, Kind: worker.KindRefused, NotStarted: true,
		Err: reservations.RetryAfter(time.Second, errors.New("429")),
	})
}

// Every metric that is defined is exported, and no other, with the type and the labels of the definition.
func TestExportsWhatIsListed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, metrics.Config{})
		testenv.Serve(t, b.client, "default")
		b.enqueue(t, call{Cost: 10})
		b.enqueue(t, call{Cost: 10})
		all(b.metrics.Event)
		store := b.metrics.Store(failing{})
		_, _, _ = bucket.Read(t.Context(), store, "api", "")
		b.monitored(t)
		_ = b.client.Do(t.Context(), "nonsense").Err()
		_ = b.client.Do(t.Context(), "get", "none").Err()
		in, _ := records(t)
		b.metrics.WatchRecords(in)
		exported := b.gather(t)
		types := map[metric.Type]dto.MetricType{
			metric.Counter: dto.MetricType_COUNTER, metric.Gauge: dto.MetricType_GAUGE,
			metric.Histogram: dto.MetricType_HISTOGRAM,
		}
		for _, d := range metric.List() {
			family := exported[d.Name]
			if family == nil {
				t.Errorf("%s is listed and not exported", d.Name)
				continue
			}
			delete(exported, d.Name)
			var labels []string
			for _, l := range family.GetMetric()[0].GetLabel() {
				labels = append(labels, l.GetName())
			}
			if want := slices.Sorted(slices.Values(d.Labels)); !slices.Equal(labels, want) {
				t.Errorf("%s has the labels %v, want %v", d.Name, labels, want)
			}
			if family.GetType() != types[d.Type] || family.GetHelp() != d.Help {
				t.Errorf("%s is a %v: %s", d.Name, family.GetType(), family.GetHelp())
			}
		}
		for name := range exported {
			t.Errorf("%s is exported and not listed", name)
		}
	})
}

func TestFollowsTheConventions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, metrics.Config{})
		b.enqueue(t, call{Cost: 10})
		all(b.metrics.Event)
		b.gather(t)
		problems, err := testutil.GatherAndLint(b.registry)
		if err != nil {
			t.Fatal(err)
		}
		if len(problems) > 0 {
			t.Errorf("promlint: %+v", problems)
		}
	})
}

func TestCountsEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, metrics.Config{})
		e := b.metrics.Event
		e(worker.Event{Kind: worker.KindStarted, Task: ref("runs")})
		all(e)
		got := b.gather(t)
		wantValue(t, got, 1, "headway_starts_total", "", "api")
		wantValue(t, got, 1, "headway_tasks_running", "default")
		wantValue(t, got, 20, "headway_tokens_estimated_total", "", "api", "tokens")
		wantValue(t, got, 14, "headway_tokens_settled_total", "", "api", "tokens") // the refused one reported nothing
		wantValue(t, got, 1, "headway_provider_refusals_total", "", "api")
		wantValue(t, got, 1, "headway_tasks_finished_total", "default", "succeeded", "call")
		wantValue(t, got, 1, "headway_tasks_rejected_total", "default", "expired", "call")
		wantValue(t, got, 1, "headway_tasks_deferred_total", "api", "limit")
		wantValue(t, got, 1, "headway_settlements_failed_total", "api")
		wantValue(t, got, 1, "headway_syncs_total", "api", "applied")
		wantValue(t, got, 1, "headway_start_lateness_seconds", "api")
	})
}

// Ten thousand keys make no more series than there are labels.
func TestBoundsLabels(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, metrics.Config{Keys: map[string]int{"api": 20}})
		e := b.metrics.Event
		for i := range 10_000 {
			name := strconv.Itoa(i)
			charges := call{Key: name, Cost: 1}.Charges()
			task := worker.TaskRef{ID: name, Queue: "queue" + name, Type: "type" + name + "\xff"}
			e(worker.Event{Kind: worker.KindStarted, Task: task, Charges: charges})
			e(worker.Event{Task: task, Charges: charges, Kind: worker.KindSucceeded})
		}
		got := b.gather(t)
		if n := len(got["headway_starts_total"].GetMetric()); n != 21 {
			t.Errorf("%d series of starts, want 20 keys and the others", n)
		}
		wantValue(t, got, 9980, "headway_starts_total", "other", "api")
		wantValue(t, got, 1, "headway_starts_total", "19", "api")
		sum := 0
		for name, f := range got {
			if n := len(f.GetMetric()); n > 110 {
				t.Errorf("%d series of %s", n, name)
			} else {
				sum += n
			}
		}
		t.Logf("%d series in all", sum)
		if n := len(got["headway_meter_level_tokens"].GetMetric()); n != 21 {
			t.Errorf("%d buckets, want that of all keys and 20", n)
		}
	})
}

// Without Config.Keys, no key is a label.
func TestKeysAreOptIn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, metrics.Config{})
		b.enqueue(t, call{Key: "acme", Cost: 10})
		b.enqueue(t, call{Key: "acme", Cost: 10})
		b.enqueue(t, call{Key: "umbrella", Cost: 10})
		got := b.gather(t)
		wantValue(t, got, 3, "headway_waitlist_tasks", "other", "api", "waiting")
		wantValue(t, got, 0, "headway_waitlist_tasks", "", "api", "waiting")
		wantValue(t, got, 30, "headway_waitlist_tokens", "other", "api", "tokens")
		if n := len(got["headway_meter_level_tokens"].GetMetric()); n != 1 {
			t.Errorf("%d buckets are shown", n)
		}
	})
}
