package memstore_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/reservations/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, instance)
}

func TestConvexRecordings(t *testing.T) {
	t.Parallel()
	storetest.Replay(t, "../testdata/convex_hand.jsonl", 516, instance)
}

func instance(*testing.T) storetest.Instance {
	clock := storetest.NewClock()
	store := memstore.NewAt(clock.Now)
	return storetest.Instance{Store: store, Advance: clock.Advance}
}

func TestConformanceLive(t *testing.T) {
	t.Parallel()
	storetest.RunLive(t, func(*testing.T) storetest.Instance { return storetest.Instance{Store: memstore.New()} })
}
