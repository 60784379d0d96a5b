// Package blocking has two contestants that wait inside the handler: a task occupies a slot of the worker until it
// may start. With one limit for all tasks nothing is simpler or better, so they are the bar for others.
package blocking
