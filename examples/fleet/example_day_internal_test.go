package fleet

import (
	"testing"
	"time"

	"github.com/headway-go/headway/headwaytest"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// No call exceeds the limit in a day in which a worker dies and Redis is away.
func TestNoRefusalInADay(t *testing.T) {
	t.Parallel()
	day := 24 * time.Hour
	if testing.Short() {
		day = 2 * time.Hour
	}
	headwaytest.Run(t, func(f *headwaytest.Fleet) {
		api := f.Provider("openai", headwaytest.Provider{
			Meters:  []reservations.Meter{{Name: "requests", Rate: 6, Period: time.Minute, Capacity: 3}}, // as it documents
			Latency: headwaytest.Between(time.Second, 20*time.Second), Refuse: 0.01, RetryAfter: 30 * time.Second,
		})
		f.Workers(3, func(w *worker.Worker) { worker.Handle(w, newHandler(api.Client())) })
		f.Arrive(0.09, func(n int) tasks.Args { return Summary{N: n} }) // a second, on average
		f.At(day/3, func() { f.Worker(0).Kill() })
		f.At(day/2, func() { f.Redis.Down(5 * time.Minute) })
		f.Run(day)
		f.Drain(time.Hour)
		if r := f.Report(); r.Violations > 0 || r.Ignored > 0 || r.Lost > 0 || r.Done != r.Tasks || r.Use["openai"] < .9 {
			t.Error(r)
		}
	}, headwaytest.LimitsFile("headway.yaml"))
}
