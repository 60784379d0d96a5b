// Package simulate plays calls against limits in virtual time, to plan capacity: when is everything done, how long do
// calls wait, which meter is scarce. It has no clock, no Redis, no goroutines: a heap of events, and for each bucket
// the real rules (bucket.Step, bucket.Plan). The order of waiting calls is that of a fleet's waitlists.
//
// A fleet differs in what a simulation leaves out: the time that a delivery takes, faults, retries, and tasks that are
// delayed by their program. A day with 100 000 calls takes about half a second. The same input has the same result.
package simulate
