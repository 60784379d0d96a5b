package worker_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/internal/products/provider"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/worker"
)

// Tasks and direct callers of another process use one limit of a provider fully, without a violation.
func TestDirectCallersBesideTasks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n, rate, capacity = 150, 100., 5.
		api := reservations.Limit{Name: "api", Meters: []reservations.Meter{
			{Name: "tokens", Rate: rate, Period: time.Second, Capacity: capacity},
		}}
		b := setup(t, api)
		p, err := provider.New(provider.Config{Requests: provider.Quota{Rate: rate, Capacity: capacity}, Slack: -1})
		if err != nil {
			t.Fatal(err)
		}
		tick := func(ctx context.Context, id string) {
			body := strings.NewReader(fmt.Sprintf(`{"id":%q}`, id))
			request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/tick", body)
			request.Header.Set("Authorization", "Bearer any")
			p.ServeHTTP(httptest.NewRecorder(), request)
		}
		w := b.worker(worker.Config{})
		worker.Handle(w, func(ctx context.Context, job *worker.Job[call]) error {
			tick(ctx, fmt.Sprint("task", job.Args.N))
			return nil
		})
		web, err := reservations.New(b.store, []reservations.Limit{api}, reservations.Config{})
		if err != nil {
			t.Fatal(err)
		}
		line, err := scheduler.New(b.client, web, scheduler.Config{})
		if err != nil {
			t.Fatal(err)
		}
		line.TakeCallers()
		b.start(w)
		began := time.Now()
		var callers sync.WaitGroup
		for i := range n {
			b.enqueue(call{N: i, Cost: 1})
			callers.Go(func() {
				charges := []reservations.Charge{{Limit: "api", Tokens: reservations.Tokens{"tokens": 1}}}
				ended := web.Do(t.Context(), charges, func(ctx context.Context) (reservations.Tokens, error) {
					tick(ctx, fmt.Sprint("caller", i))
					return nil, nil
				})
				if ended != nil {
					t.Error(ended)
				}
			})
		}
		callers.Wait()
		for range n {
			if f := receive(t, b.finishes); f.Kind != worker.KindSucceeded {
				t.Errorf("finish %+v", f)
			}
		}
		took := time.Since(began)
		if err = line.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		r := p.Report()
		if r.Violations != 0 || r.Accepted != 2*n {
			t.Errorf("%d accepted, %d violations", r.Accepted, r.Violations)
		}
		if used := (2*n - capacity) / rate / took.Seconds(); used < 0.85 {
			t.Errorf("%d tasks and callers in %v, %.1f %% of the limit used", 2*n, took, 100*used)
		}
	})
}
