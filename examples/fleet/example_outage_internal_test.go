package fleet

import (
	"testing"
	"time"

	"github.com/headway-go/headway/headwaytest"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// What happens when Redis is away from 09:00 to 09:15?
func TestRedisAway(t *testing.T) {
	t.Parallel()
	headwaytest.Run(t, func(f *headwaytest.Fleet) {
		api := f.Provider("openai", headwaytest.Provider{Latency: headwaytest.Between(time.Second, 20*time.Second)})
		f.Workers(3, func(w *worker.Worker) { worker.Handle(w, newHandler(api.Client())) })
		f.Arrive(4./60, func(n int) tasks.Args { return Summary{N: n} }) // what Redis does not take is sent again
		f.At(time.Hour, func() { f.Redis.Down(15 * time.Minute) })
		f.Run(time.Hour + 16*time.Minute)
		t.Logf("at 09:16 %d tasks wait or run", f.Report().Left)
		for f.Report().Left > 3 {
			f.Run(time.Minute)
		}
		r := f.Report()
		t.Logf("after %v all is as before: %v", f.Elapsed(), r.Wait)
		if r.Violations > 0 || r.Lost > 0 || r.Twice > 0 || r.Failed > 0 || f.Elapsed() > 3*time.Hour {
			t.Error(r)
		}
	}, headwaytest.LimitsFile("headway.yaml"), headwaytest.Begin(time.Date(2026, time.January, 5, 8, 0, 0, 0, time.UTC)))
}
