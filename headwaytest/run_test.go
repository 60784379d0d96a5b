package headwaytest_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/headway-go/headway/headwaytest"
	"github.com/headway-go/headway/internal/documents/packed"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

type call struct {
	N int `json:"n"`
}

func (call) TaskType() string { return "call" }
func (call) Charges() []reservations.Charge {
	return []reservations.Charge{{Limit: "api", Tokens: reservations.Tokens{"requests": 1}}}
}

func one(n int) tasks.Args { return call{N: n} }

// perSecond is a limit of the API "api".
func perSecond(rate, capacity float64) reservations.Limit {
	m := reservations.PerSecond("requests", rate)
	m.Capacity = capacity
	return reservations.Limit{Name: "api", Meters: []reservations.Meter{m}}
}

// calls sets up workers that call the API.
func calls(api *headwaytest.API) func(w *worker.Worker) {
	return func(w *worker.Worker) {
		c := api.Caller()
		worker.Handle(w, func(ctx context.Context, _ *worker.Job[call]) error { return c.Do(ctx, headwaytest.Call{}) })
	}
}

func TestBacklog(t *testing.T) {
	t.Parallel()
	headwaytest.Run(t, func(f *headwaytest.Fleet) {
		api := f.Provider(
			"api",
			headwaytest.Provider{Latency: headwaytest.Between(50*time.Millisecond, 1500*time.Millisecond)},
		)
		f.Workers(3, calls(api))
		f.Backlog(600, one)
		if !f.Drain(10 * time.Minute) {
			t.Error("tasks are left")
		}
		if r := f.Report(); r.Violations > 0 || r.Lost > 0 || r.Done != 600 || r.Use["api"] < .99 ||
			r.LastStart > 60*time.Second {
			t.Error(r)
		}
	}, headwaytest.Limits(perSecond(10, 10)))
}

// What a play stores is compressed by one encoder of the whole program, which must not belong to the bubble of a play.
func TestPlaysStoreDocuments(t *testing.T) {
	t.Parallel()
	for range 2 {
		headwaytest.Run(t, func(*headwaytest.Fleet) {
			text := make([]byte, 1<<16)
			if got, err := packed.Unpack(packed.Pack(text)); err != nil || !bytes.Equal(got, text) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
}
