package dispatcher

import "github.com/headway-go/headway/internal/line/waitlist"

const (
	// headsLeast is how many heads of a waitlist are read where nothing is known of it.
	headsLeast = 4
	// readsMost bounds the waitlists of which the dispatcher knows more.
	readsMost = 256
)

// reads is how many heads of a waitlist the next look reads, by bucket: the double of what was promoted by the last
// one. It falls by half at most, since looks follow each other faster than tokens. A bucket that is not there has
// headsLeast.
type reads map[string]int

// learn sets the number for the next look at a bucket. Promoted is how many of the heads could start.
func (r reads) learn(due waitlist.Due, promoted int) {
	n, known := r[due.Bucket]
	next := min(max(2*promoted, n/2), headsMost)
	if next <= headsLeast || !due.More {
		delete(r, due.Bucket)
		return
	}
	if !known && len(r) >= readsMost {
		for other := range r { // any one: it begins again
			delete(r, other)
			break
		}
	}
	r[due.Bucket] = next
}
