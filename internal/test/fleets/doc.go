// Package fleets has tests only: whole fleets of real workers in virtual time, by package headwaytest. Each file has a
// theme, such as the order of tasks, the dispatcher, or calls in flight.
//
// A test declares what it promises as exact bounds: virtual time has no noise, so there is no slack for a busy machine.
// What needs processes, signals or a wall clock is in ./e2e.
package fleets
