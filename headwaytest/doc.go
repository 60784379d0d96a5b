// Package headwaytest proves limits, handlers and faults in a unit test: a whole fleet of real workers runs in virtual
// time, with an in-memory Redis and an API that enforces its limits exactly.
//
//	headwaytest.Run(t, func(f *headwaytest.Fleet) {
//		api := f.Provider("openai", headwaytest.Provider{
//			Latency: headwaytest.Between(time.Second, 20*time.Second), Refuse: 0.07, RetryAfter: 3 * time.Second,
//		})
//		f.Workers(3, func(w *worker.Worker) { worker.Handle(w, newHandler(api.Client())) })
//		f.Arrive(9, func(n int) tasks.Args { return Summary{N: n} }) // a second, on average
//		f.At(time.Hour, func() { f.Worker(0).Kill() })
//		f.At(2*time.Hour, func() { f.Redis.Down(15 * time.Second) })
//		f.Run(24 * time.Hour)
//		if r := f.Report(); r.Violations > 0 || r.Lost > 0 || r.Use["openai"] < .95 {
//			t.Error(r)
//		}
//	}, headwaytest.LimitsFile("headway.yaml"))
//
// Everything in the fleet is the production code: workers, scheduler, dispatcher, waitlists, asynq, the Redis client
// and the rules of the buckets. Only the network, Redis and the API are made for the test. Handlers run unchanged:
// their HTTP
// client comes from [API.Client], or they call [Caller.Do].
//
// # What it does not show
//
// How fast a machine is: computing takes no virtual time. Clocks that differ: all processes have one. Faults of a real
// Redis or MongoDB, such as a failover that loses writes.
package headwaytest
