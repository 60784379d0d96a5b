package class

// Head is what the order of a waitlist needs to know of one class: its turns, and its first waiting task.
type Head struct {
	Class string
	// Ends is the end of the last turn of the class, in seconds of its tokens.
	Ends float64
	// Turn is how far the next turn of the class moves, by its first task. Zero for a task that has had its turn.
	Turn float64
}

// Next returns the index of the class whose head starts next; -1 if there is none. Virtual is the latest start of a
// turn in the waitlist. Classes share a bucket by start-time fair queueing (Goyal, Vin, Cheng 1996): the class whose
// turn begins first is next, of equal ones the first by name. A task that has had its turn is before all others.
func Next(virtual float64, heads []Head) int {
	best, begins := -1, 0.
	for i, h := range heads {
		at := -1.
		if h.Turn > 0 {
			at = max(virtual, h.Ends)
		}
		if best < 0 || at < begins || at == begins && h.Class < heads[best].Class {
			best, begins = i, at
		}
	}
	return best
}
