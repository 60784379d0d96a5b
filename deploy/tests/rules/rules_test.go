package rules_test

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/state/metric"
	"github.com/headway-go/headway/reservations"
	"github.com/prometheus/client_golang/prometheus"
)

// errRefused is a 429 with Retry-After.
var errRefused = reservations.RetryAfter(time.Second, errors.New("429"))

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
	f.serve()
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
	f.serve()
	f.wait(15)
	f.until("headway_dispatcher_on_duty", "", 1)
	f.until("headway_waitlist_tasks", "", 14)
	j := newJudge(t)
	only(t, j.watch(f.registry, nil), "HeadwayStuck")
	j.says("the waitlist of limit api is long", "raise the limit, or let the tasks wait")
}

func TestDispatcherIsDead(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.serve()
	f.wait(3)
	f.until("headway_dispatcher_on_duty", "", 0)
	j := newJudge(t)
	only(t, j.watch(f.registry, nil), "HeadwayStuck")
	j.says("no dispatcher is on duty, so no task is promoted", "look at the logs of the workers")
}

// A provider that refuses all calls, and a paused queue: the alerts have the sentences that `headway status` has.
func TestAlertsNameTheCause(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.dispatch()
	f.serve()
	f.wait(3)
	f.pause()
	f.refuse()
	f.until("headway_dispatcher_on_duty", "", 1)
	f.until("headway_stuck_tasks", "queue default is paused", 3)
	j := newJudge(t)
	only(t, j.watch(f.registry, nil), "HeadwayStuck")
	j.says("queue default is paused", "resume it with `headway unpause default`")
	j.says("limit api has stopped, because the provider says that the account has no quota left",
		"pay or raise the quota; `headway limits unblock api` asks at once")
}

// No worker takes from the queue, and the provider has asked for a pause of an hour.
func TestNobodyServesALimitThatIsBlocked(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.dispatch()
	f.wait(3)
	f.block(time.Hour)
	f.until("headway_dispatcher_on_duty", "", 1)
	f.until("headway_stuck_tasks", "no_worker", 3)
	f.until("headway_stuck_tasks", "blocked", 2)
	j := newJudge(t)
	only(t, j.watch(f.registry, nil), "HeadwayStuck")
	j.says("no worker takes from queue default", "start one")
	j.says("limit api is blocked, because a provider refused a call", "`headway limits unblock api` ends that")
}

func TestRedisIsDown(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.until("headway_up", "redis", 1)
	f.redis.Close()
	f.until("headway_up", "redis", 0)
	j := newJudge(t)
	only(t, j.watch(f.registry, nil), "HeadwayStuck")
	j.says("queues can't be read", "check REDIS_URL, MONGODB_URI and the services")
}

// records are the gauges of batches and dead tasks of a fleet that is well.
func records() (registry *prometheus.Registry, died prometheus.Gauge, stopped prometheus.Gauge) {
	registry = prometheus.NewRegistry()
	gauge := func(name, label, value string) prometheus.Gauge {
		all := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name}, []string{label})
		registry.MustRegister(all)
		return all.WithLabelValues(value)
	}
	gauge(metric.Up, "service", "redis").Set(1)
	died, stopped = gauge(metric.DeadLately, "job", "worker"), gauge(metric.Batches, "state", "stopped")
	stopped.Set(1) // long ago
	return registry, died, stopped
}

func TestTasksDieAndABatchStops(t *testing.T) {
	t.Parallel()
	registry, died, stopped := records()
	step := 0
	only(t, newJudge(t).watch(registry, func() {
		if step++; step == 10 {
			died.Set(3)
			stopped.Set(2)
		}
	}), "HeadwayBatchStopped", "HeadwayTasksDie")
}

// A batch that has stopped long ago fires no alert.
func TestABatchHasStoppedBefore(t *testing.T) {
	t.Parallel()
	registry, _, _ := records()
	only(t, newJudge(t).watch(registry, nil))
}

func TestNothingIsScraped(t *testing.T) {
	t.Parallel()
	only(t, newJudge(t).watch(nil, nil), "HeadwayNotScraped")
}
