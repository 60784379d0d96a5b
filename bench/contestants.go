package main

import (
	"github.com/headway-go/headway/bench/contest"
	"github.com/headway-go/headway/bench/headway"
	"github.com/headway-go/headway/bench/peers"
)

// contestants are all, in the order of the report.
func contestants() []contest.Contestant {
	return append(headway.All(), peers.All()...)
}
