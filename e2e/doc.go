// Package e2e holds the tests of the whole: the commands as people run them, as processes of their own, on a real Redis and a
// real MongoDB-compatible server, against a provider process that counts what arrives by its own clock and its own code.
// Workers are killed, and services go away, while they work.
//
// The tests measure a limit, so they run one after the other, some 23 minutes in all. With -short they are smaller, run
// side by side and are less strict, and the longest ones are left out. Each logs what it measured; `go test -v` shows it.
//
// On a busy machine workers are held up between the answer of the bucket and the call. Calls that were held up may arrive
// together and be refused; a failed test logs how long they were held up.
//
// HEADWAY_E2E_LOGS names a folder in which the logs of all processes are kept. With HEADWAY_STRICT_TIMING=1 the demo's
// lateness is judged as well.
package e2e
