// Package testenv gives tests the services that they need, and ways to break them.
//
// [Redis] and [Mongo] give a test a private part of the services at REDIS_URL and MONGODB_URI: a logical Redis
// database, or a MongoDB database. No other test uses it, and it is emptied when the test ends. If the variable is
// not set, the test fails; it is never skipped. `make test` starts the services and sets both variables.
//
// [StartRedisServer] runs a Redis process for one test. The test may kill it and start it again with its data.
//
// [NewProxy] starts a proxy between a client and a service. The proxy makes the service unreachable or silent for one
// test, while other tests use it.
//
// The cleanup of the test stops everything and waits for it. The package only uses loopback addresses, unless the
// variables name others.
package testenv
