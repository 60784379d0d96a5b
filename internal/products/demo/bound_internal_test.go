package demo

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/worker"
)

// A start counts when it is due, a settlement when the bucket gave back; only what no refill covers is an excess.
func TestTheBucketsOwnBound(t *testing.T) {
	t.Parallel()
	limit := reservations.Limit{Name: "l", Meters: []reservations.Meter{reservations.PerSecond("tokens", 10)}}
	began := time.Unix(1_000_000, 0)
	charge := reservations.Charge{Limit: "l", Tokens: reservations.Tokens{"tokens": 6}}
	start := func(at, hold time.Duration) worker.Event {
		return worker.Event{
			Kind: worker.KindStarted, Charges: []reservations.Charge{charge},
			Outcome: reservations.Outcome{At: began.Add(at), Hold: hold},
		}
	}
	settle := worker.Event{
		Kind: worker.KindSettled, Charge: charge, Used: reservations.Tokens{"tokens": 2},
		Outcome: reservations.Outcome{At: began.Add(100 * time.Millisecond)},
	}
	for name, test := range map[string]struct {
		events []worker.Event
		settle reservations.SettleMode
		want   int
	}{
		"within":           {[]worker.Event{start(0, 0), start(0, 200*time.Millisecond)}, "", 0},
		"above":            {[]worker.Event{start(0, 0), start(0, 100*time.Millisecond)}, "", 1},
		"after a refund":   {[]worker.Event{start(0, 0), start(0, 100*time.Millisecond), settle}, "", 0},
		"no refund counts": {[]worker.Event{start(0, 0), start(0, 100*time.Millisecond), settle}, "keep", 1},
		"none":             {},
	} {
		var b bound
		for _, e := range test.events {
			b.event(e)
		}
		limit.Settle = test.settle
		if got, most := b.exceeded(limit); got != test.want || (most > 0) != (test.want > 0) {
			t.Errorf("%s: %d exceed by %v, want %d", name, got, most, test.want)
		}
	}
}

func TestStalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		longest, stop := stalls(t.Context())
		<-time.After(time.Second)
		if got := longest(); got != 0 {
			t.Errorf("a machine that runs stood still for %v", got)
		}
		stop()
		synctest.Wait()
	})
}
