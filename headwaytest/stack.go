package headwaytest

import (
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// stack returns the stack of this goroutine, or of all.
func stack(all bool) string {
	for size := 1 << 16; ; size *= 4 {
		b := make([]byte, size)
		if n := runtime.Stack(b, all); n < size {
			return string(b[:n])
		}
	}
}

var (
	goroutineHead = regexp.MustCompile(`^goroutine \d+ (?:gp=\S+ m=\S+ (?:mp=\S+ )?)?\[([^\]]*)\]:`)
	bubbleName    = regexp.MustCompile(`synctest bubble \d+`)
)

// bubbleOf returns the name of the bubble of a goroutine, or nothing.
func bubbleOf(stack string) string { return bubbleName.FindString(goroutineHead.FindString(stack)) }

// inBubble returns the stacks of the goroutines of a bubble. The ones of synctest itself are left out.
func inBubble(stacks, bubble string) (found []string) {
	for one := range strings.SplitSeq(stacks, "\n\n") {
		of := bubbleOf(one)
		inner := strings.Contains(one, "\ninternal/synctest.Run(") ||
			strings.Contains(one, "\ntesting/synctest.testingSynctestTest(")
		if of != "" && of == bubble && !inner {
			found = append(found, one)
		}
	}
	return found
}

// stateOf returns what a goroutine does, as "chan receive (durable)".
func stateOf(stack string) string {
	state, _, _ := strings.Cut(goroutineHead.FindStringSubmatch(stack)[1], ",")
	return state
}

// holding returns the stacks of goroutines for which virtual time waits.
func holding(stacks []string) (found []string) {
	for _, one := range stacks {
		if !strings.Contains(stateOf(one), "(durable)") {
			found = append(found, one)
		}
	}
	return found
}

// running returns the stacks of goroutines that compute.
func running(stacks []string) (found []string) {
	for _, one := range stacks {
		if s := stateOf(one); s == "running" || s == "runnable" {
			found = append(found, one)
		}
	}
	return found
}

// described is the most stacks that a message has, and framesShown the most functions of one.
const described, framesShown = 8, 4

// describe names goroutines by what they do and by their functions outside of Go's own library.
func describe(stacks []string) string {
	counts := map[string]int{}
	for _, one := range stacks {
		counts[strings.TrimSuffix(stateOf(one), " (durable)")+": "+strings.Join(frames(one), " < ")]++
	}
	texts := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return strings.Compare(a, b)
	})
	var all strings.Builder
	for i, text := range texts {
		if i == described {
			fmt.Fprintf(&all, "  and %d other kinds\n", len(texts)-i)
			break
		}
		fmt.Fprintf(&all, "  %d in %s\n", counts[text], text)
	}
	return strings.TrimSuffix(all.String(), "\n")
}

// trimmed matches files of Go's own library in a program of `go build -trimpath`: of the packages in which functions
// wait.
var trimmed = regexp.MustCompile(
	`^(bufio|context|crypto|database|internal|io|net|os|runtime|sync|syscall|testing|time)/`)

// inLibrary reports whether a file is of Go's own library.
func inLibrary(path string) bool {
	path = strings.TrimSpace(path)
	root := runtime.GOROOT() //nolint:staticcheck // empty in a trimmed program
	return root != "" && strings.HasPrefix(path, root+"/src/") || root == "" && trimmed.MatchString(path)
}

// frames returns the innermost functions of a stack that are not of Go's own library, or its outermost function.
func frames(stack string) (found []string) {
	lines := strings.Split(stack, "\n")[1:]
	last := ""
	for i := 0; i+1 < len(lines) && len(found) < framesShown; i += 2 {
		name, at := lines[i], strings.TrimSpace(lines[i+1])
		at, _, _ = strings.Cut(at, " +0x")
		if open := strings.LastIndex(name, "("); open > 0 && !strings.HasPrefix(name, "created by") {
			name = name[:open]
		}
		name = name[strings.LastIndex(name, "/")+1:]
		last = name + " " + at[strings.LastIndex(at, "/")+1:]
		if !inLibrary(lines[i+1]) {
			found = append(found, last)
		}
	}
	if found == nil && last != "" {
		found = []string{last}
	}
	return found
}
