package mutations_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headway-go/headway/headwaytest"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

type chat struct {
	N int `json:"n"`
}

func (chat) TaskType() string { return "chat" }
func (chat) Charges() []reservations.Charge {
	return []reservations.Charge{{Limit: "chat", Tokens: reservations.Tokens{"requests": 1, "tokens": estimated}}}
}

// A chat is estimated to use four times the tokens that it uses.
const estimated, used = 400, 100

// TestFleet is what each mutation runs: a fleet that uses every part of Headway that a mutation changes. Estimates are
// so
// high that the limit of tokens is used only if they are settled.
func TestFleet(t *testing.T) {
	t.Parallel()
	requests, tokens := reservations.PerSecond("requests", 10), reservations.PerSecond("tokens", 1400)
	requests.Capacity, tokens.Capacity = 10, 8000
	limit := reservations.Limit{Name: "chat", Meters: []reservations.Meter{requests, tokens}}
	headwaytest.Run(t, func(f *headwaytest.Fleet) {
		api := f.Provider("chat", headwaytest.Provider{
			Latency: headwaytest.Between(100*time.Millisecond, 200*time.Millisecond), Refuse: .01, RetryAfter: 3 * time.Second,
		})
		f.Workers(3, func(w *worker.Worker) {
			c := api.Caller()
			worker.Handle(w, func(ctx context.Context, job *worker.Job[chat]) error {
				err := c.Do(ctx, headwaytest.Call{
					Tokens: job.Args.Charges()[0].Tokens, Used: reservations.Tokens{"tokens": used},
				})
				if _, refused := errors.AsType[*headwaytest.RefusedError](err); !refused {
					job.Use(reservations.Tokens{"tokens": used})
				}
				return err
			})
		})
		// One task, a burst of 20 when the bucket is full again, and then more than the limit.
		random, at, times := rand.New(rand.NewPCG(1, 1)), 3*time.Second, []time.Duration{0}
		for range 20 {
			times = append(times, at)
		}
		for range 480 {
			at += time.Duration(random.ExpFloat64() / 15 * float64(time.Second))
			times = append(times, at)
		}
		f.Replay(times, func(n int) tasks.Args { return chat{N: n} })
		f.Run(at)
		f.Drain(10 * time.Minute)
		r := f.Report()
		if r.Violations > 0 || r.Ignored > 0 {
			t.Errorf("a call exceeded the limit or ignored a refusal: %v", r)
		}
		if r.Lost > 0 || r.Twice > 0 || r.Done != len(times) {
			t.Errorf("a task is lost or ran twice: %v", r)
		}
		if r.PlacesLost > 15 {
			t.Errorf("a task lost its place: %v", r)
		}
		if r.Use["chat"] < .9 || r.LastStart > 100*time.Second {
			t.Errorf("the limit is not used: %v", r)
		}
	}, headwaytest.Limits(limit), headwaytest.Network(100*time.Microsecond, 500*time.Microsecond))
}
