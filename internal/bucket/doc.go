// Package bucket is the arithmetic of a bucket, without clocks and stores: what a request makes of it, and what it
// answers. Package reservations describes the rules.
package bucket
