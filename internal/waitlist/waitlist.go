// Package waitlist stores tasks that wait for a rate limit, in Redis beside asynq. It holds data and changes it atomically;
// the caller decides which task starts.
//
// Each bucket has one waitlist. A waiting task has a tag, its place in the order of the bucket (start-time fair queueing),
// and keeps the tag until it begins or leaves. One process of the fleet is on duty as dispatcher: it calls Look, decides, and
// calls Promote. A promoted task has left the list and asks its bucket; then it begins (Report) or goes back to its place (Join).
//
// Every method that changes something runs one script, so each change is atomic. A process may die between two calls: a task
// that was promoted and did not begin goes back to its list, and records of lost tasks expire.
package waitlist

import "github.com/redis/go-redis/v9"

// Waitlist is the waitlists of all buckets. It is safe for concurrent use.
type Waitlist struct {
	client redis.UniversalClient
}

// New returns the waitlists in the Redis of the client. All processes of a fleet share them.
func New(client redis.UniversalClient) *Waitlist {
	return &Waitlist{client: client}
}
