package main

import (
	"fmt"
	"time"

	"github.com/headway-go/headway/reservations"
)

const (
	// gapMark stands before what a meter owes only to keep places in time.
	gapMark = "~"
	// gapTold is the least part of what a meter owes that has to be a gap for it to be told.
	gapTold = 0.1
)

// scarcest is the meter for which those who wait do wait: what they asked of it takes the longest to come back. Not ok where nobody waits for any.
func scarcest(meters []reservations.MeterView) (scarce int, ok bool) {
	longest := time.Duration(0)
	for k, m := range meters {
		asked := m.LineIn
		if m.Rate > 0 {
			asked -= time.Duration(m.Gap / m.Rate * float64(m.Period))
		}
		if asked > longest {
			longest, scarce, ok = asked, k, true
		}
	}
	return scarce, ok
}

// keepsPlaces says that what a meter owes is there for the most part only to keep places in time, for another one that is scarcer.
func keepsPlaces(m reservations.MeterView) bool {
	owes := m.Plan + m.Line
	if m.LineIn == 0 { // all who wait would find their tokens there
		return owes+m.Late > 0
	}
	return m.Gap > gapTold*owes
}

// gaps marks the meters that only keep places, and says for which one, a line for each.
func gaps(meters []reservations.MeterView) (marked map[string]bool, notes []string) {
	marked = map[string]bool{}
	scarce, ok := scarcest(meters)
	for k, m := range meters {
		if !ok || k == scarce || !keepsPlaces(m) {
			continue
		}
		marked[m.Name] = true
		that := "that only keeps"
		if m.Gap > 0 {
			that = "nobody asked for " + amount(m.Gap) + " of that, which only keep"
		}
		notes = append(notes, fmt.Sprintf("%s %s is not scarce: %s the places of tasks that wait for %s", gapMark, m.Name, that, meters[scarce].Name))
	}
	return marked, notes
}
