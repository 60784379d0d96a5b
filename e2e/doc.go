// Package e2e tests the whole system. The commands run as processes, on a real Redis and a real MongoDB-compatible
// server. A provider process counts the calls by its own clock and its own code. Workers are killed, and services
// become unreachable, during the tests.
//
// What needs no process, signal or wall clock is tested in virtual time, by package internal/test/fleets.
//
// The tests measure a limit, so they run one after the other, for about 15 minutes. With -short they are smaller and
// less strict, run at the same time, and the longest ones are skipped. Each test logs its figures; `go test -v` shows
// them.
//
// A busy machine delays workers between the answer of the bucket and the call. Delayed calls may arrive together and
// be refused. A failed test logs these delays.
//
// HEADWAY_E2E_LOGS names a folder for the logs of all processes. With HEADWAY_STRICT_TIMING=1 the tests also judge
// the lateness of the demo.
package e2e
