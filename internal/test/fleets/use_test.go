package fleets_test

import (
	"testing"
	"time"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// A backlog uses its limit, whatever the limit is like, and no call exceeds it.
func TestLimitIsUsed(t *testing.T) {
	t.Parallel()
	bounded := perSecond(10, 5)
	bounded.MaxReserved = 20
	sharded := limit(perSecond(20, 20))
	sharded.Shards = 4
	chats := limit(perSecond(10, 10), reservations.Meter{Name: "tokens", Rate: 700, Period: time.Second, Capacity: 2000})
	chats.Settle = reservations.SettleAdjust
	chat := func(n int) tasks.Args {
		tokens := float64(60 + n*37%200)
		return call{N: n, Tokens: tokens, Used: tokens * float64(3+n%6) / 10}
	}
	for _, c := range []struct {
		name       string
		limit      reservations.Limit
		count      int
		make       func(int) tasks.Args
		use        float64
		deliveries float64
		places     int // zero: not judged
	}{
		// The first tasks wake one worker each, and start at once: these may pass each other.
		{name: "requests", limit: requestsOnly, use: .998, deliveries: 1.01, places: 5},
		{name: "at most 20 reserved", limit: limit(bounded), use: .998, deliveries: 2},
		{name: "four shards", limit: sharded, use: .97, deliveries: 2},
		{name: "tokens", limit: chats, count: 200, make: chat, use: .99, deliveries: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, world{limits: []reservations.Limit{c.limit}, provider: usual}, func(f *fleet) {
				f.start(size)
				f.Run(3 * time.Second)
				count, task := 300, numbered
				if c.make != nil {
					count, task = c.count, c.make
				}
				f.Backlog(count, task)
				r := f.end(count)
				f.wantOnce()
				f.wantUse(r, c.use)
				f.wantDeliveries(r, c.deliveries)
				if c.places > 0 {
					f.wantInOrder(c.places, nil)
				}
			})
		})
	}
}
