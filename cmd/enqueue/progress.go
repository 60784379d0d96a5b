package main

import (
	"fmt"
	"strings"
)

// faultsListed is how many faulty lines are named; more are only counted.
const faultsListed = 20

// indented lists the faults, one a line.
func indented(r result) string {
	text := "  " + strings.Join(r.Faults, "\n  ")
	if more := r.Faulty - len(r.Faults); more > 0 {
		text += fmt.Sprintf("\n  and %d more", more)
	}
	return text
}
