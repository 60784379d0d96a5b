// Package network connects programs of one test without sockets: in a testing/synctest bubble a goroutine that waits
// for
// a socket stops virtual time, one that waits for a connection of this package does not.
//
// A [Wire] is the network between one process and a server. It delays, refuses, hangs and loses, as a test says.
package network
