package worker_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/products/provider"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/worker"
)

// Tasks and direct callers of another process use one limit of a provider fully, without a violation.
func TestDirectCallersBesideTasks(t *testing.T) {
	t.Parallel()
	const n, rate, capacity = 150, 100., 5.
	api := reservations.Limit{Name: "api", Meters: []reservations.Meter{
		{Name: "tokens", Rate: rate, Period: time.Second, Capacity: capacity},
	}}
	b := setupOn(t, testenv.StartRedisServer(t).Addr(), api)
	p, err := provider.Start(provider.Config{
		Requests: provider.Quota{Rate: rate, Capacity: capacity}, Slack: 500 * time.Millisecond, // for a busy machine
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	tick := func(ctx context.Context, id string) error {
		body := strings.NewReader(fmt.Sprintf(`{"id":%q}`, id))
		request, fault := http.NewRequestWithContext(ctx, http.MethodPost, p.URL()+"/tick", body)
		if fault != nil {
			return fault
		}
		request.Header.Set("Authorization", "Bearer any")
		answer, fault := http.DefaultClient.Do(request)
		if fault == nil {
			fault = answer.Body.Close()
		}
		return fault
	}
	w := b.exact(worker.Config{})
	worker.Handle(w, func(ctx context.Context, job *worker.Job[call]) error {
		return tick(ctx, fmt.Sprint("task", job.Args.N))
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
				return nil, tick(ctx, fmt.Sprint("caller", i))
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
	http.DefaultClient.CloseIdleConnections()
	r := p.Report()
	if r.Violations != 0 || r.Accepted != 2*n {
		t.Errorf("%d accepted, %d violations", r.Accepted, r.Violations)
	}
	t.Logf("%d tasks and callers in %v, %.1f %% of the limit used", 2*n, took, 100*(2*n-capacity)/rate/took.Seconds())
}
