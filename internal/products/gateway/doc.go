// Package gateway serves the API of a provider to clients in any language, under the limits of the fleet. A client
// changes its base_url and nothing else.
//
// Each live call is a direct call. It waits in the waitlist with the tasks of the fleet, and starts when all its
// charges have started. The usage that the provider names settles it.
//
// While a call waits, the gateway holds the connection. First it is silent, for at most 10 s: the answer keeps its real
// status. Then the response opens with the status 200, and a comment or a space goes out every 10 s. After 10 minutes,
// or at the time that the caller names, it ends with an error.
//
// A call that the provider refuses for a while waits again. So a caller sees no 429 that waiting can avoid.
//
// The gateway has no state but its connections: several of them may serve one fleet. With a Batching it also serves
// files and batches. A batch that has not ended is the work of one gateway at a time, by a lease.
//
// What is not promised: a call that the caller gives up before any answer came stays charged as estimated. After the
// status 200 went out, a JSON answer that fails breaks off instead of ending.
package gateway
