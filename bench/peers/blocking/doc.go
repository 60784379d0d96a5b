// Package blocking is the two ways to wait inside the handler: a slot of the worker is taken until the task may start. With one
// limit for everything nothing is simpler, and nothing is better: they are the bar.
package blocking
