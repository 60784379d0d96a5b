// Package headway is one client for tasks that call rate-limited APIs: it enqueues tasks, runs them in workers, and
// makes direct calls, all under the same limits. Everything it shares with other processes is in Redis.
//
//	hw, err := headway.New(redisClient, headway.Config{Limits: headway.Limits{
//		"openai": {headway.PerMinute("requests", 500), headway.PerMinute("tokens", 200_000)},
//	}})
//	headway.Handle(hw, func(ctx context.Context, job *headway.Job[Summary]) error { ... })
//	_, err = hw.Enqueue(ctx, Summary{Document: "a letter"})
//	err = hw.Run(ctx)
//
// A task is a struct: see package tasks. The client is made of a worker.Worker, a scheduler.Scheduler and a
// reservations.Limiter, which Client.Worker, Client.Scheduler and Client.Limiter return. Programs that need more use
// these packages. [Adopt] adds limits to an asynq server that exists.
package headway
