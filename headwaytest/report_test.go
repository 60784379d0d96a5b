package headwaytest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/headwaytest"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/worker"
)

// Tasks that arrive in an outage are neither dropped by Drain nor forgotten by a report.
func TestArrivalsInAnOutage(t *testing.T) {
	t.Parallel()
	var counts []int
	for _, outage := range []time.Duration{0, 20 * time.Minute} {
		headwaytest.Run(t, func(f *headwaytest.Fleet) {
			f.Workers(1, calls(f.Provider("api", headwaytest.Provider{})))
			f.Arrive(.5, one)
			f.Run(time.Minute)
			f.Redis.Down(outage)
			f.Run(10 * time.Minute)
			if r := f.Report(); (outage > 0) != (r.Unsent > 200) || r.Lost > 0 || r.Left < r.Unsent ||
				(outage > 0) != strings.Contains(r.String(), " of them at their producer)") {
				t.Errorf("in an outage of %v: %v", outage, r)
			}
			if outage > 0 && f.Drain(time.Minute) {
				t.Error("drained in an outage")
			}
			drained := f.Drain(time.Hour)
			r := f.Report()
			if !drained || r.Done != r.Tasks || r.Lost > 0 || r.Unsent > 0 {
				t.Errorf("after an outage of %v: %v", outage, r)
			}
			counts = append(counts, r.Tasks)
		}, headwaytest.Limits(perSecond(10, 10)))
	}
	if counts[0] != counts[1] {
		t.Errorf("%d tasks arrived without an outage, %d with one", counts[0], counts[1])
	}
}

// A play may end in an outage: its tasks are counted.
func TestEndsInAnOutage(t *testing.T) {
	t.Parallel()
	headwaytest.Run(t, func(f *headwaytest.Fleet) {
		f.Workers(2, calls(f.Provider("api", headwaytest.Provider{})))
		f.Backlog(100, one)
		f.Run(5 * time.Second)
		f.Redis.Down(time.Hour)
		f.Run(time.Minute)
		if r := f.Report(); r.Left == 0 || r.Lost > 0 || r.Done+r.Left != 100 {
			t.Error(r)
		}
	}, headwaytest.Limits(perSecond(10, 10)))
}

// A report has the texts of errors, and how often they came.
func TestErrorsInReport(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, want string
		setup      func(w *worker.Worker)
	}{
		{"panic", "handler panicked: boom", func(w *worker.Worker) {
			worker.Handle(w, func(context.Context, *worker.Job[call]) error { panic("boom") })
		}},
		{"no handler", "has no handler for task type \"call\"", func(w *worker.Worker) {
			worker.Handle(w, func(context.Context, *worker.Job[unreadable]) error { return nil })
		}},
		{"refusal", "slow down", func(w *worker.Worker) {
			worker.Handle(w, func(context.Context, *worker.Job[call]) error {
				// Each call has begun before the first refusal stops the limit.
				time.Sleep(5 * time.Second) //gate:ok called in a bubble
				return reservations.RetryAfter(time.Hour, errors.New("slow down"))
			})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			headwaytest.Run(t, func(f *headwaytest.Fleet) {
				f.Workers(1, c.setup)
				f.Backlog(5, one)
				f.Run(10 * time.Second)
				r := f.Report()
				if c.name == "refusal" && r.Errors[0].Count != 5 {
					t.Errorf("want five refusals: %v", r)
				}
				if len(r.Errors) != 1 || !strings.Contains(r.Errors[0].Text, c.want) || r.Errors[0].Count < 5 ||
					r.Errors[0].By != "worker 0" || !strings.Contains(r.String(), "by worker 0: ") {
					t.Errorf("want %q: %+v%v", c.want, r.Errors, r)
				}
			}, headwaytest.Limits(perSecond(10, 10)))
		})
	}
}

// A provider that accepted no call is not used, even if nothing waited for it.
func TestUnusedProvider(t *testing.T) {
	t.Parallel()
	headwaytest.Run(t, func(f *headwaytest.Fleet) {
		f.Workers(1, calls(f.Provider("api", headwaytest.Provider{})))
		f.Run(time.Minute)
		if r := f.Report(); r.Use["api"] != 0 {
			t.Error(r)
		}
	}, headwaytest.Limits(perSecond(10, 10)))
}

// A violation names its call, and both limits.
func TestViolation(t *testing.T) {
	t.Parallel()
	headwaytest.Run(t, func(f *headwaytest.Fleet) {
		api := f.Provider("api", headwaytest.Provider{Meters: perSecond(5, 5).Meters})
		f.Workers(1, func(w *worker.Worker) {
			c := api.Client()
			worker.Handle(w, func(ctx context.Context, _ *worker.Job[call]) error {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://api.example.com", nil)
				if err != nil {
					return err
				}
				res, err := c.Do(req)
				if err != nil {
					return err
				}
				return res.Body.Close()
			})
		})
		f.Backlog(200, one)
		f.Drain(time.Minute)
		r := f.Report()
		p := r.Providers["api"]
		if len(p.Violations) != 20 || p.Count <= 20 || p.OwnLimit {
			t.Fatal(r)
		}
		v := p.Violations[0]
		if v.Task == "" || v.Worker != "worker 0" || v.Limit != "10/s, at most 10 at once" ||
			v.Enforced != "5/s, at most 5 at once" {
			t.Errorf("%+v", v)
		}
		for _, want := range []string{
			fmt.Sprintf("the first 20 of %d violations:", p.Count),
			"worker 0, task " + v.Task + ": requests needed 1, had ",
			"; your limit 10/s, at most 10 at once, the provider's 5/s, at most 5 at once",
		} {
			if !strings.Contains(r.String(), want) {
				t.Errorf("want %q: %v", want, r)
			}
		}
	}, headwaytest.Limits(perSecond(10, 10)))
}
