// Package roundtrip lets callers of one process that run Redis scripts at the same moment share a round trip.
package roundtrip
