// Package metrics shows a fleet to Prometheus. It is opt-in: no other package of Headway imports it.
//
//	m := metrics.New(metrics.Config{})
//	client.AddHook(m.RedisHook())
//	database, _ := mongostore.Connect(ctx, uri, m.Mongo)
//	limiter, _ := reservations.New(m.Store(store), limits, reservations.Config{})
//	w, _ := worker.New(client, limiter, worker.Config{Events: []func(worker.Event){m.Event}})
//	err := m.Watch(client, limiter)
//	prometheus.MustRegister(m)
//	defer m.Close()
//
// docs/metrics.md lists all metrics. Two kinds differ in what a sum over processes means:
//
//   - Counters and histograms are of this process: add them up over the fleet.
//   - Gauges of buckets, waitlists, queues and the dispatcher are of the whole fleet, and every process exports the
//     same: take max, not sum. They are read in the background while scrapes come, so a scrape waits for no store. If
//     a service does not answer, its gauges are left out after [Config.Stale], and headway_up is 0.
//
// Labels are bounded. A meter and a state have few values. Keys are labels only for the limits in [Config.Keys], up to
// a maximum number; further keys count as "other". Limits, queues, task types, commands of Redis and collections of
// MongoDB are bounded alike.
package metrics
