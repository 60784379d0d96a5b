// Package roundtrip lets callers of one process that ask at the same moment share a round trip to Redis.
package roundtrip
