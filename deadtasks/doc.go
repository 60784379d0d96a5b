// Package deadtasks keeps a record in MongoDB of each task that asynq archives, and enqueues such tasks again.
//
// asynq forgets archived tasks beyond 10 000 of a queue, and after 90 days. A [Store] is the worker.Graveyard that
// forgets none: the record is written before asynq archives the task, with its payload, headers, options and the errors
// of its attempts. What asynq or a person archived without a worker's doing, and what died while the database was away,
// the workers find in the archive.
//
// A record is in one of these states: failing (the task failed and is tried again), dead, requeueing (a requeue that
// was interrupted), requeued, and recovered (it went well after all). Those that are dead or requeueing are kept until
// they are requeued or deleted, the others for [Options.Retention]. The records of batches' requests go after that time
// too: the batch keeps their results, and sends them again.
package deadtasks
