package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/internal/state"
	"github.com/headway-go/headway/internal/state/metric"
	"github.com/headway-go/headway/reservations"
)

// ErrNoAnswer is the error of Ready for a service that was not read yet, or whose read hangs.
var ErrNoAnswer = errors.New("metrics: no answer")

// readRedis reads queues, the dispatcher, and waitlists.
func (f *fleet) readRedis(ctx context.Context, now time.Time) ([]prometheus.Metric, error) {
	duty, err := inside.Of(f.reader.Scheduler).OnDuty(ctx)
	if err != nil {
		return nil, err
	}
	onDuty := 0.
	if duty.Dispatcher != "" {
		onDuty = 1
	}
	all := []prometheus.Metric{f.gauge(metric.Dispatcher, onDuty)}
	queues, err := state.Queues(f.inspector)
	if err != nil {
		return nil, err
	}
	all = append(all, f.queueMetrics(queues)...)
	shared := state.Snapshot{At: now, Duty: duty, Queues: queues}
	if err = shared.ReadWorkers(ctx, f.client); err != nil {
		return nil, err
	}
	found := map[string][]dispatcher.Waitlist{}
	for _, limit := range f.limits() {
		lists, more, err := inside.Of(f.reader.Scheduler).Waitlists(ctx, limit, state.WaitlistsMost)
		if err != nil {
			return nil, err
		}
		found[limit] = lists
		all = append(all, f.waitlistMetrics(limit, lists, more, now)...)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists, f.shared = found, shared
	return all, nil
}

// limits are the names of the limits that the process knows.
func (f *fleet) limits() []string {
	if f.reader.Limiter == nil {
		return nil
	}
	return inside.Of(f.reader.Limiter).Limits().Names()
}

// queueMetrics adds up the queues that share a label.
func (f *fleet) queueMetrics(queues []*asynq.QueueInfo) (all []prometheus.Metric) {
	sums := map[string]asynq.QueueInfo{}
	for _, q := range queues {
		label := f.m.queues.of(q.Queue)
		sum := sums[label]
		sum.Paused = sum.Paused || q.Paused
		sum.Pending, sum.Active, sum.Scheduled = sum.Pending+q.Pending, sum.Active+q.Active, sum.Scheduled+q.Scheduled
		sum.Retry, sum.Completed, sum.Archived = sum.Retry+q.Retry, sum.Completed+q.Completed, sum.Archived+q.Archived
		sum.Latency = max(sum.Latency, q.Latency)
		sums[label] = sum
	}
	for label, q := range sums {
		for state, n := range map[string]int{
			"pending": q.Pending, "active": q.Active, "scheduled": q.Scheduled, "retry": q.Retry,
			"completed": q.Completed, "archived": q.Archived,
		} {
			all = append(all, f.gauge(metric.QueueTasks, float64(n), label, state))
		}
		all = append(all, f.gauge(metric.QueueLatency, q.Latency.Seconds(), label),
			f.gauge(metric.QueuePaused, truth(q.Paused), label))
	}
	return all
}

// waitlistMetrics adds up the waitlists that share a label.
func (f *fleet) waitlistMetrics(
	limit string, lists []dispatcher.Waitlist, more bool, now time.Time,
) (all []prometheus.Metric) {
	var none state.Bucket
	if known, err := inside.Of(f.reader.Limiter).Limits().For(limit, ""); err == nil {
		for _, meter := range known.Meters { // not any that Redis may have
			none.Meters = append(none.Meters, state.Meter{Meter: meter.Name})
		}
	}
	sums := map[string]state.Bucket{"": none}
	for _, l := range lists {
		label := f.m.keys.label(limit, l.Key)
		sum, ok := sums[label]
		if !ok {
			sum = none
		}
		sums[label] = sum.With(l)
	}
	all = append(all, f.gauge(metric.WaitGoal, f.goal(limit).Seconds(), limit),
		f.gauge(metric.Truncated, truth(more), limit))
	for key, sum := range sums {
		all = append(all,
			f.gauge(metric.WaitingTasks, float64(sum.Waiting), limit, key, "waiting"),
			f.gauge(metric.WaitingTasks, float64(sum.Promoted), limit, key, "promoted"))
		for _, m := range sum.Meters {
			all = append(all, f.gauge(metric.WaitingTokens, m.Waiting, limit, key, m.Meter))
		}
		if sum.EndIn != nil {
			all = append(all, f.gauge(metric.WaitlistEnd, unix(now)+*sum.EndIn, limit, key))
		}
	}
	return all
}

// readBuckets reads the bucket that all keys share of each limit, and the buckets of keys that have a label. Its
// metrics are made with the waitlists.
func (f *fleet) readBuckets(ctx context.Context, now time.Time) ([]prometheus.Metric, error) {
	buckets := []state.Bucket{}
	for _, limit := range inside.Of(f.reader.Limiter).Limits().Names() {
		found, err := f.reader.Buckets(ctx, limit, append([]string{""}, f.m.keys.of(limit)...))
		if err != nil {
			return nil, err
		}
		buckets = append(buckets, found...)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.buckets, f.viewed = buckets, now
	return nil, nil
}

// bucketMetrics shows the buckets with the waitlists, as `limits show` does. The caller holds the lock.
func (f *fleet) bucketMetrics() (all []prometheus.Metric) {
	for _, b := range f.buckets {
		if b.Fault != "" {
			continue
		}
		b = f.listed(b)
		key, until := f.m.keys.label(b.Limit, b.Key), 0.
		if b.Blocked > 0 {
			until = unix(f.viewed) + b.Blocked
		}
		all = append(all, f.gauge(metric.BlockedUntil, until, b.Limit, key))
		for _, why := range []reservations.Reason{reservations.ReasonQuota, reservations.ReasonKey} {
			all = append(all, f.gauge(metric.Stopped, truth(b.Refusing == string(why)), b.Limit, key, string(why)))
		}
		for _, m := range b.Meters {
			all = append(all,
				f.gauge(metric.Capacity, m.Capacity, b.Limit, key, m.Meter),
				f.gauge(metric.Refill, refilled(m), b.Limit, key, m.Meter),
				f.gauge(metric.Level, m.Level, b.Limit, key, m.Meter),
				f.gauge(metric.Reserved, m.Promised, b.Limit, key, m.Meter))
		}
	}
	return all
}

// refilled are the tokens that come back every second now: an adaptive meter changes its rate.
func refilled(m state.Meter) float64 {
	if m.Kind == string(reservations.KindInFlight) || m.Period <= 0 {
		return 0
	}
	return m.Rate / m.Period
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
