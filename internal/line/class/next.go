package class

// Member is a class of a waitlist, or a tenant of a class, of which a task waits.
type Member struct {
	Name string
	// Begins is where its next turn begins: where its last one ended, or later. The unit is a second of its tokens.
	Begins float64
}

// Next returns the index of the member whose turn is next; -1 if there is none. Virtual is the latest beginning of a
// turn so far. Members share their turns by start-time fair queueing (Goyal, Vin, Cheng 1996): the one whose turn
// begins first is next, of equal ones the first by name. A turn ends later by its tokens, divided by the weight of the
// member.
func Next(virtual float64, n int, member func(i int) Member) int {
	best, name, begins := -1, "", 0.
	for i := range n {
		m := member(i)
		at := max(virtual, m.Begins)
		if best < 0 || at < begins || at == begins && m.Name < name {
			best, name, begins = i, m.Name, at
		}
	}
	return best
}
