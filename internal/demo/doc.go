// Package demo runs a whole fleet in one process: a provider that enforces its limits and counts every violation, a queue
// (embedded Redis), a shared bucket (in memory), three workers, and some 400 real chat requests. It ends with a report.
package demo
