// Package nearest suggests the name that a person may have meant.
package nearest

import (
	"strconv"
	"strings"
)

// Name returns the name that differs least from the word, and is empty if all differ in more than about a third of it.
func Name(word string, names []string) string {
	best, least := "", max(1, (len([]rune(word))+2)/3)+1
	for _, name := range names {
		if d := distance(strings.ToLower(word), strings.ToLower(name)); d < least {
			best, least = name, d
		}
	}
	return best
}

// Hint is `; did you mean "NAME"?`, or empty if no name is near.
func Hint(word string, names []string) string {
	if name := Name(word, names); name != "" {
		return "; did you mean " + strconv.Quote(name) + "?"
	}
	return ""
}

// There is `there are "A", "B"`, with a hint, or `there is "A"`, or `there are none`.
func There(word string, names []string) string {
	switch len(names) {
	case 0:
		return "there are none"
	case 1:
		return "there is " + Quoted(names)
	default:
		return "there are " + Quoted(names) + Hint(word, names)
	}
}

// Quoted is `"A", "B"`.
func Quoted(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = strconv.Quote(name)
	}
	return strings.Join(quoted, ", ")
}

// distance counts the letters to insert, remove, replace or swap with the next one.
func distance(from, to string) int {
	a, b := []rune(from), []rune(to)
	var before []int // the row two letters ago
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range a {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range b {
			replaced := last[j]
			if a[i] != b[j] {
				replaced++
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, replaced)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
