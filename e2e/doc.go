// Package e2e holds the tests of the whole: the commands as people run them, as processes of their own, on a real Redis and a real
// MongoDB-compatible server, against a provider process that counts what arrives by its own clock and its own code. Workers
// are killed, and services go away, while they work.
//
// The tests measure a limit, so they run one after the other, some nine minutes in all. Each logs what it measured; `go test -v`
// shows it. On a machine that is busy with other things the workers are held up between the answer of the bucket and the call, and what
// was held up may arrive together and be refused; a failed test says how long they were.
//
// HEADWAY_E2E_LOGS names a folder in which the logs of all processes are kept. With HEADWAY_STRICT_TIMING=1 the demo's lateness
// is judged as well.
package e2e
