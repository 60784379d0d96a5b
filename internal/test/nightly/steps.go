package main

import (
	"fmt"
	"time"
)

// step is a row of the report.
type step struct {
	// Name is a word for the file of the output.
	Name string
	// Shows is what a green row shows.
	Shows string
	// Command is run by bash in the root of the repository. Exit code 77 means that this machine can't run it.
	Command string
	// Most is the time after which the command is ended, and the row is red.
	Most time.Duration
}

const (
	short  = 30 * time.Minute
	long   = 2 * time.Hour
	goTest = "go test -count=1 -timeout 2h "
)

// steps are all steps, the short ones first. Random fleets have seeds that the gate never has, from this one.
func steps(seed int64) []step {
	e2e := func(pattern string) string { return goTest + "./e2e -run '" + pattern + "'" }
	return []step{
		{"vulnerabilities", "no vulnerability is known in what the binaries call", "scripts/vuln", short},
		{"documents", "the documents' commands, flags and Go are right", goTest + "./cmd/internal/root ./examples", short},
		{"deploy", "alert rules and manifests", "go -C deploy/tests test -count=1 ./...", short},
		{"cold-start", "the services install from nothing", "scripts/cold-start", short},
		{"browser", "the page in a real browser", "make test-browser", short},
		{"demo", "the demo keeps its limit", e2e("TestDemo"), short},
		{"clocks", "clocks 90 s apart change no limit", e2e("TestClocksApart"), short},
		{"stopped", "a worker that SIGSTOP pauses for minutes", e2e("TestStopped"), short},
		{"failover", "Redis Sentinel and Cluster lose a master", e2e("Failover|Cluster"), short},
		{"killed", "gateways and workers of a batch are killed twice", e2e("Killed"), short},
		{"e2e", "the programs, with the race detector", "HEADWAY_E2E_RACE=1 " + goTest + "./e2e", long},
		{"full", "every case of every test", "FULL=1 scripts/test pure services processes", long},
		{"race", "no data race", "RACE=1 scripts/test pure services", long},
		{"coverage", "the tests of the buckets run their statements", "scripts/coverage 90", short},
		{"hostile", "every attack has its test", "scripts/test-hostile", short},
		{"weeks", "a fleet's week", goTest + "./internal/test/fleets -run TestWeek", short},
		{"random", "2000 new random fleets, each in two orders", fmt.Sprintf(
			"HEADWAY_FLEETS=2000 HEADWAY_FLEETS_FROM=%d scripts/fleets -timeout 2h -run TestRandomFleets -seeds %d,%d",
			2000*seed, 2*seed, 2*seed+1), long},
		{
			"fleets", "all fleets in 20 new orders", fmt.Sprintf("scripts/fleets -timeout 1h -seeds %d-%d", 20*seed, 20*seed+19),
			long,
		},
		{"mutations", "every planted fault is seen", goTest + "./internal/test/mutations", long},
		{"conformance", "clients that others wrote, through the gateway", "conformance/run", long},
		{"fuzz", "every decoder for 20 seconds", "make fuzz", long},
		{"bench", "the benchmark beside its peers", "go -C bench test -count=1 ./... && make bench QUICK=1", long},
	}
}
