// Package roundtrip lets callers of one process that ask at the same moment share a round trip to Redis. While Redis is away it keeps what ends a task, and it finds the tasks again that
// Redis gave to an asynq server that did not hear of them.
package roundtrip
