package main

import (
	"github.com/headway-go/headway/bench/contest"
	"github.com/headway-go/headway/bench/headway"
)

// contestants are all, in the order of the report.
func contestants() []contest.Contestant {
	return headway.All()
}
