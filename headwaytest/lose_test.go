package headwaytest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/headway-go/headway/headwaytest"
)

// Time passes while answers of Redis get lost, also if all of them do. Then the fleet goes on.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for _, share := range []float64{.5, .9, 1} {
		t.Run(fmt.Sprint(share), func(t *testing.T) {
			t.Parallel()
			headwaytest.Run(t, func(f *headwaytest.Fleet) {
				f.Workers(2, calls(f.Provider("api", headwaytest.Provider{})))
				f.Arrive(.5, one)
				f.Run(10 * time.Second)
				f.Redis.Lose(share, 10*time.Second)
				f.Run(time.Minute)
				f.Drain(10 * time.Minute)
				if r := f.Report(); r.Done < 20 || r.Left > 0 || r.Lost > 0 || r.Violations > 0 {
					t.Error(r)
				}
			}, headwaytest.Limits(perSecond(10, 10)))
		})
	}
}
