// Package deadtasks stores a record of each task that asynq archives, and enqueues such tasks again. The records are in
// MongoDB or in Redis.
//
//	dead := deadtasks.New(mongostore.Documents(database), deadtasks.Options{}) // or redisstore.Documents(client)
//	err := dead.EnsureIndexes(ctx)
//	w, err := worker.New(client, limiter, worker.Config{Dead: dead})
//	for task, err := range dead.List(ctx, deadtasks.Filter{Type: "mail"}) { ... }
//	report, err := dead.Requeue(ctx, client, deadtasks.Filter{Type: "mail"}, nil)
//
// asynq deletes archived tasks beyond 10 000 of a queue, and after 90 days. A [Store] in worker.Config.Dead keeps all
// of them. It writes the record before asynq archives the task, with its payload, headers, options and the errors of
// its attempts. Workers also search the archive for tasks without a record. asynq or a person may have archived such a
// task, or the task may have died while the database was down.
//
// A record is in one of these states: failing (the task failed and is retried), dead, requeueing (a requeue was
// interrupted), requeued, and recovered (the task succeeded after a failure). Dead and requeueing records stay until
// they are requeued or deleted, others for [Options.Retention]. Records of the requests of batches expire after that
// time too: the batch keeps their results, and sends them again.
package deadtasks
