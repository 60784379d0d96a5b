// Package storetest is the conformance suite that every [reservations.Store] has to pass.
//
// [Run] needs a store whose clock the test sets; among its cases is a model check, which compares random sequences of
// requests with [bucket.Step]. [Replay] compares a store with recordings of another rate limiter. [RunLive] runs
// what needs the store's own clock. Each case asks for an instance of its own, so instances must not share buckets.
// What a store does when its database goes away is for its own tests.
package storetest

import (
	"sync"
	"testing"
	"time"

	"github.com/headway-go/headway/reservations"
)

// Instance is one store under test, empty, with what the suite needs to drive it. Whatever it holds is closed by the
// function that made it, through t.Cleanup.
type Instance struct {
	// Store is what is tested.
	Store reservations.Store
	// Advance moves the store's clock by d; negative moves it back. It stands still otherwise. Run needs it; RunLive does
	// not use it.
	Advance func(d time.Duration)
	// Peer returns another store on the same data and clock, as another process would have it. Nil stands for Store
	// itself.
	Peer func(t *testing.T) reservations.Store
}

func (i Instance) peer(t *testing.T) reservations.Store {
	t.Helper()
	if i.Peer == nil {
		return i.Store
	}
	return i.Peer(t)
}

// Clock is a clock that tests set. Safe for concurrent use.
type Clock struct {
	mu  sync.Mutex // guards now
	now time.Time
}

// NewClock returns a clock that stands at the beginning of 2026.
func NewClock() *Clock { return &Clock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }

// Now is where the clock stands.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock; negative moves it back.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Run tests a store whose clock the test sets. Every case is a subtest that runs in parallel with the others.
func Run(t *testing.T, open func(t *testing.T) Instance) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(d driver)
	}{
		{"requests fold in order", testFold},
		{"empty batch", testEmptyBatch},
		{"meters", testMeters},
		{"dry changes nothing", testDry},
		{"unchanged is not written", testUnchanged},
		{"reset", testReset},
		{"reset by another", testResetByAnother},
		{"load", testLoad},
		{"buckets are apart", testApart},
		{"clock runs back", testClockBack},
		{"limit changes", testChange},
		{"settle once", testSettleOnce},
		{"block", testBlock},
		{"sync", testSync},
		{"adaptive", testAdaptive},
		{"holds", testHolds},
		{"calls in flight", testInFlight},
		{"context cancelled", testCancelled},
		{"concurrent", testConcurrent},
		{"concurrent processes", testConcurrentProcesses},
		{"concurrent through a limiter", testConcurrentLimiter},
		{"concurrent settlements", testConcurrentSettlements},
		{"model", testModel},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			i := open(t)
			if i.Advance == nil {
				t.Fatal("storetest: Run needs Instance.Advance; RunLive does without")
			}
			c.test(driver{t: t, i: i})
		})
	}
}

// RunLive tests a store on its own clock.
func RunLive(t *testing.T, open func(t *testing.T) Instance) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(d driver)
	}{
		{"concurrent", testConcurrentLive},
		{"bound", testBoundLive},
		{"created at once", testCreatedAtOnce},
		{"clock goes on", testClockGoesOn},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(driver{t: t, i: open(t)})
		})
	}
}
