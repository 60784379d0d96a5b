package rules_test

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/headway-go/headway/tasks"
)

// errRefused is a 429 with Retry-After.
var errRefused = tasks.RetryAfter(time.Second, errors.New("429"))

// only fails the test unless exactly these alerts fired.
func only(t *testing.T, fired map[string]time.Duration, want ...string) {
	t.Helper()
	if got := slices.Sorted(maps.Keys(fired)); !slices.Equal(got, want) {
		t.Errorf("fired %v, want %v", fired, want)
	}
	t.Logf("fired after: %v", fired)
}

// A fleet with a short waitlist, and now and then a refusal.
func TestHealthyFleet(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.dispatch()
	f.wait(3)
	f.until("headway_dispatcher_on_duty", "", 1)
	f.until("headway_waitlist_tasks", "", 2)
	step := 0
	only(t, newJudge(t).watch(f.registry, func() {
		f.calls(20, min(1, step%8))
		step++
		f.calls(20, 0)
	}))
}

func TestStormOfRefusals(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.dispatch()
	f.until("headway_dispatcher_on_duty", "", 1)
	only(t, newJudge(t).watch(f.registry, func() { f.calls(10, 5) }), "HeadwayProviderRefuses")
}

func TestWaitlistWillNotBeDone(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.dispatch()
	f.wait(15)
	f.until("headway_dispatcher_on_duty", "", 1)
	f.until("headway_waitlist_tasks", "", 14)
	only(t, newJudge(t).watch(f.registry, nil), "HeadwayWaitlistTooLong")
}

func TestDispatcherIsDead(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.until("headway_dispatcher_on_duty", "", 0)
	only(t, newJudge(t).watch(f.registry, nil), "HeadwayDispatcherDead")
}

func TestRedisIsDown(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.until("headway_up", "redis", 1)
	f.redis.Close()
	f.until("headway_up", "redis", 0)
	only(t, newJudge(t).watch(f.registry, nil), "HeadwayServiceDown")
}

func TestNothingIsScraped(t *testing.T) {
	t.Parallel()
	only(t, newJudge(t).watch(nil, nil), "HeadwayNotScraped")
}
