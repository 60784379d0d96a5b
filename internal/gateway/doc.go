// Package gateway serves the API of a provider to clients in any language, under the limits of the fleet. A client
// changes its base_url and nothing else.
//
// Each live call is a direct call: it waits in the waitlist with the tasks of the fleet, starts when all its charges
// have started, and is settled by the usage that the provider names. While it waits, the gateway holds the connection:
//
//	silent   up to 10 s: the answer keeps its real status
//	open     then the status is 200, and a comment or a space goes out every 10 s
//	ended    at the latest after 10 min, or at the time that the caller names: an error
//
// A call that the provider refuses for a while waits again. So a caller sees no 429 that waiting can avoid.
//
// The gateway has no state but its connections: several of them may serve one fleet.
//
// What is not promised: a call that the caller gives up before any answer came stays charged as estimated. After the
// status 200 went out, a JSON answer that fails breaks off instead of ending.
package gateway
