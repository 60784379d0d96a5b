package simulate

// head is what the order of a waitlist needs to know of one class: its turns, and its first waiting task.
type head struct {
	class string
	// ends is the end of the last turn of the class, in seconds of its tokens.
	ends float64
	// cost is how far the next turn of the class moves, by its first task. Zero for a task that has had its turn.
	cost float64
}

// next returns the index of the class whose head starts next; -1 if there is none. Virtual is the latest start of a
// turn in the waitlist. Classes share a bucket by start-time fair queueing: the class whose turn begins first is next,
// and a task that has had its turn is before all others. It is the rule of order.lua and promote.lua as a pure
// function.
func next(virtual float64, heads []head) int {
	best, begins := -1, 0.
	for i, h := range heads {
		at := -1.
		if h.cost > 0 {
			at = max(virtual, h.ends)
		}
		if best < 0 || at < begins || at == begins && h.class < heads[best].class {
			best, begins = i, at
		}
	}
	return best
}
