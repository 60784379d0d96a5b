package batches

import (
	"iter"
	"math/bits"
)

// LineSet is a set of lines, one bit for each. It does not change once it was returned, so it may be read concurrently.
type LineSet struct {
	from, to int
	words    []uint64
}

func newLineSet(from, to int) *LineSet {
	return &LineSet{from: from, to: to, words: make([]uint64, max(0, to-from+64)/64)}
}

func (l *LineSet) add(line int) {
	if i := line - l.from; line >= l.from && line <= l.to {
		l.words[i/64] |= 1 << (i % 64)
	}
}

// Has says whether line is in the set.
func (l *LineSet) Has(line int) bool {
	i := line - l.from
	return line >= l.from && line <= l.to && l.words[i/64]&(1<<(i%64)) != 0
}

// Len returns the number of lines in the set.
func (l *LineSet) Len() int {
	n := 0
	for _, w := range l.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// All yields the lines in their order.
func (l *LineSet) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range l.words {
			for ; w != 0; w &= w - 1 {
				if !yield(l.from + 64*i + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}
