// Package e2e tests what needs processes, signals and real services: the commands run as processes, on a real Redis and
// a real MongoDB-compatible server. Workers are killed and stopped, and services become unreachable. What does not need
// that is tested in virtual time, by package internal/test/fleets: how much of a limit is used, how late tasks start,
// in which order, and what an exact provider sees.
//
// No test measures time, so the tests run side by side, on a busy machine as well. A worker logs for each start when
// the bucket let it start, by the clock of the store. The tests judge these times by the limit, exactly: how long the
// machine needs from there to the call changes nothing. The provider process counts the calls of each task.
//
// HEADWAY_E2E_LOGS names a folder for the logs of all processes. `go test -v` shows figures.
package e2e
