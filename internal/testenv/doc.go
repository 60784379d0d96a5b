// Package testenv gives tests the services they need, and ways to break them.
//
// [Redis] and [Mongo] hand out a private corner of the services whose addresses
// stand in REDIS_URL and MONGODB_URI: a logical Redis database or a MongoDB
// database that nobody else uses, emptied when the test ends. Where the
// address is missing the test fails, it is never skipped: `make test` starts
// the services and sets both variables.
//
// [StartRedisServer] runs a Redis process that belongs to one test alone and may be
// killed and started again, with its data kept.
//
// [NewProxy] stands between a client and a service and makes the service go
// away, or fall silent, without touching the service itself. It is the way to
// take a shared service down for one test only.
//
// Everything is stopped and waited for in the test's cleanup. Nothing here listens on, or talks
// to, anything but loopback, unless the variables name another place.
package testenv
