package fleet

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/headway-go/headway/headwaytest"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// What does a second key buy? Three calls a minute arrive, and from 09:30 to 10:00 twelve more.
func TestSecondKey(t *testing.T) {
	t.Parallel()
	for _, keys := range []int{1, 2} {
		t.Run(fmt.Sprintf("keys=%d", keys), func(t *testing.T) {
			t.Parallel()
			headwaytest.Run(t, func(f *headwaytest.Fleet) {
				api := f.Provider("openai", headwaytest.Provider{
					Latency: headwaytest.Between(time.Second, 20*time.Second),
					Cost:    func(r *http.Request) headwaytest.Call { return headwaytest.Call{Key: r.Header.Get("Authorization")} },
				})
				f.Workers(3, func(w *worker.Worker) { worker.Handle(w, newHandler(api.Client())) })
				call := func(n int) tasks.Args { return Summary{N: n, Key: fmt.Sprintf("key-%d", n%keys)} }
				f.Arrive(3./60, call)
				var peak []time.Duration
				for n := range 360 {
					peak = append(peak, 30*time.Minute+time.Duration(n)*5*time.Second)
				}
				f.Replay(peak, call)
				f.Run(2 * time.Hour)
				f.Drain(2 * time.Hour)
				r := f.Report()
				t.Logf("%d keys: waits %v", keys, r.Wait)
				if longest := r.Wait.Max; r.Violations > 0 || r.Lost > 0 || (keys == 2) != (longest < 15*time.Minute) {
					t.Error(r)
				}
			}, headwaytest.LimitsFile("headway.yaml"))
		})
	}
}
