package redact

import "math/bits"

// span is a part of a text, in bytes.
type span struct{ from, to int }

// automaton finds all forms of secrets in one pass over a text (Aho and Corasick), in any case of ASCII letters.
type automaton struct {
	next    [][256]int32 // the state after each byte, by state; the first one is the start
	ends    []int        // how many bytes the longest form has that ends in a state; zero for none
	longest int
}

func newAutomaton(forms []string) automaton {
	if len(forms) == 0 {
		return automaton{}
	}
	a := automaton{next: make([][256]int32, 1), ends: make([]int, 1)}
	for _, form := range forms {
		at := int32(0)
		for _, c := range []byte(form) {
			c = lower(c)
			if a.next[at][c] == 0 {
				a.next[at][c] = int32(len(a.next)) //nolint:gosec // as many states as secrets have bytes
				a.next, a.ends = append(a.next, [256]int32{}), append(a.ends, 0)
			}
			at = a.next[at][c]
		}
		a.ends[at] = len(form)
		a.longest = max(a.longest, len(form))
	}
	a.link()
	return a
}

// link completes the states, the shortest first: where no form goes on, the longest end of what was read does that
// begins one.
func (a *automaton) link() {
	shorter := make([]int32, len(a.next)) // the state of that end
	for queue := []int32{0}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		for c := range a.next[at] {
			if c >= 'A' && c <= 'Z' {
				continue
			}
			to := a.next[at][c]
			if to == 0 {
				a.next[at][c] = a.next[shorter[at]][c]
				continue
			}
			if at != 0 {
				shorter[to] = a.next[shorter[at]][c]
			}
			a.ends[to] = max(a.ends[to], a.ends[shorter[to]])
			queue = append(queue, to)
		}
		copy(a.next[at]['A':], a.next[at]['a':'z'+1])
	}
}

// find returns where a text holds forms, as its bytes are or as what they stand for, in order and apart.
func (a *automaton) find(text []byte) []span {
	if a.longest == 0 {
		return nil
	}
	var spans []span
	hide := func(from, to int) {
		for n := len(spans); n > 0 && spans[n-1].to >= from; n-- {
			from = min(from, spans[n-1].from)
			spans = spans[:n-1]
		}
		spans = append(spans, span{from, to})
	}
	var raw, meant int32
	var buffer [16]byte
	begins := make([]int, 1<<bits.Len(uint(a.longest))) // where the last bytes that were meant stand in the text
	last := len(begins) - 1
	for at, n := 0, 0; at < len(text); {
		c := text[at]
		escape := c == '\\' || c == '%' || c == '&'
		if !escape && raw|meant == 0 && a.next[0][c] == 0 {
			at++ // most of a text begins no secret
			continue
		}
		means, size := text[at:at+1], 1
		if escape {
			means, size = decode(buffer[:0], text[at:])
		}
		for i := at; i < at+size; i++ {
			raw = a.next[raw][text[i]]
			if length := a.ends[raw]; length > 0 {
				hide(i+1-length, i+1)
			}
		}
		for _, c := range means {
			begins[n&last] = at
			n++
			meant = a.next[meant][c]
			if length := a.ends[meant]; length > 0 {
				hide(begins[(n-length)&last], at+size)
			}
		}
		at += size
	}
	return spans
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
