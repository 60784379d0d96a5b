// Package roundtrip lets callers of one process that ask at the same moment share a round trip to Redis, and keeps what ends a task while Redis is away.
package roundtrip
