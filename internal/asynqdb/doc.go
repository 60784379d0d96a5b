// Package asynqdb is the only place that knows asynq's private Redis keys, messages and scripts. asynq does not promise
// to keep them: the tests hold them to the version in go.mod.
//
// A [DB] changes where asynq keeps tasks. Each change is one script, so it is atomic: a process that is killed leaves
// each task where asynq itself will deliver it.
//
// [ForServer] returns the Redis client of an asynq server. With that client, a server takes several tasks in one
// round trip. A delivery that ends, or begins, while Redis is away is not lost.
package asynqdb
