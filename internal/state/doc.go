// Package state reads the state that the whole fleet shares: limits with their buckets and waitlists, queues, and
// the dispatcher on duty. `headway limits show`, the metrics and the page show what it returns. It changes nothing.
package state
