// Package mutations plants faults into the production code, one at a time, and checks that a fleet in virtual time sees
// each of them.
package mutations
