package metrics_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/fleet/deadletter"
	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/internal/test/network"
	"github.com/headway-go/headway/metrics"
	"github.com/headway-go/headway/reservations/redisstore"
)

// records are batches and dead tasks in a Redis of their own, which away takes away.
func records(t *testing.T) (in documents.Store, away func()) {
	t.Helper()
	server := memredis.Serve(t)
	return redisstore.Documents(server.Client(t)), func() { server.Wire.Set(network.Refuse) }
}

// Batches and dead tasks are gauges with few labels.
func TestRecordsAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in, _ := records(t)
		b := newBundle(t, metrics.Config{Refresh: 10 * time.Millisecond})
		b.metrics.WatchRecords(in)
		store, dead := batches.New(in, batches.Options{}), deadtasks.New(in, deadtasks.Options{})
		if err := errors.Join(store.EnsureIndexes(t.Context()), dead.EnsureIndexes(t.Context())); err != nil {
			t.Fatal(err)
		}
		for i, failures := range []int{0, 0, 1} {
			id := fmt.Sprintf("batch-%d", i)
			_, _, err := store.Open(t.Context(), batches.Batch{
				ID: id, Name: "f.jsonl", Hash: "x", Lines: 10, Requests: 10, Limit: "api", Queue: "default", FailuresMost: failures,
			})
			failed := batches.Result{Batch: id, Line: 1, Failure: &batches.Failure{Code: "x", Message: "no"}}
			good := batches.Result{Batch: id, Line: 2, Response: &batches.Response{StatusCode: 200}}
			err = errors.Join(append(store.FinishMany(t.Context(), []batches.Result{failed, good}), err)...)
			if _, _, fault := store.Counter(id).Bound(t.Context()); errors.Join(err, fault) != nil {
				t.Fatal(err, fault)
			}
		}
		for i, ago := range []time.Duration{time.Minute, 2 * time.Hour} {
			at := time.Now().Add(-ago)
			err := dead.Recorder().Record(t.Context(), []deadletter.Task{{
				ID: strconv.Itoa(i), Queue: "default", Type: "mail", At: at, Cause: deadletter.CausePermanent,
				Last: deadletter.Attempt{Number: 1, At: at, Error: "550"},
			}})
			if err != nil {
				t.Fatal(err)
			}
		}
		got := b.gather(t)
		wantValue(t, got, 2, "headway_dead_tasks")
		wantValue(t, got, 1, "headway_dead_tasks_last_hour")
		for state, want := range map[string]float64{"open": 2, "stopped": 1} {
			wantValue(t, got, want, "headway_batches", state)
		}
		for state, want := range map[string]float64{"waiting": 16, "done": 2, "failed": 2} {
			wantValue(t, got, want, "headway_batch_requests", state)
		}
	})
}

func TestReadyWithoutRecords(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in, away := records(t)
		away()
		b := newBundle(t, metrics.Config{})
		b.metrics.WatchRecords(in)
		wantValue(t, b.gather(t), 0, "headway_up", "records")
		if err := b.metrics.Ready(); err != nil {
			t.Error(err)
		}
	})
}
