// Package bullmq is BullMQ (npm) with the limiter of its workers, as in its guide ("Rate limiting"): max jobs in each
// duration, for all workers of a queue. Its workers and its producer are programs for Node. This package contains and
// installs them (see install.go).
package bullmq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"sync"

	"github.com/headway-go/headway/bench/contest"
)

// limiter is a limiter of BullMQ: at most Max jobs in Duration milliseconds, counted from the first job.
type limiter struct {
	Max      int `json:"max"`
	Duration int `json:"duration"`
}

type contestant struct {
	name, about string
	spaced      bool
	installed   func() (installation, error)
}

// All returns the two ways to set a limit in BullMQ. One limits the jobs of each second, as in BullMQ's guide: 100 a
// second are 100 in 1000 ms. The other starts one job in each interval, so that jobs are spread evenly: 1 in 10 ms.
// Both install BullMQ, once, when they first need it.
func All() []contest.Contestant {
	installed := sync.OnceValues(install)
	return []contest.Contestant{
		contestant{
			name:      "bullmq-per-second",
			about:     "BullMQ (Node) with the limiter of its workers as in its guide: a second's jobs in 1000 ms",
			installed: installed,
		},
		contestant{
			name:      "bullmq-spaced",
			about:     "the same, tuned to keep the limit in every window: 1 job in each interval (10 ms for 100 a second)",
			spaced:    true,
			installed: installed,
		},
	}
}

// Name implements contest.Contestant.
func (c contestant) Name() string { return c.name }

// About implements contest.Contestant.
func (c contestant) About() string { return c.about }

// Refuses implements contest.Picky. It installs BullMQ at its first call. If that fails, BullMQ takes part in no
// work.
func (c contestant) Refuses(work contest.Work) string {
	switch {
	case len(work.Limits) > 1:
		return "a queue of BullMQ has one limit (a limit for each group is in BullMQ Pro)"
	case work.Overestimated:
		return "BullMQ limits jobs, not tokens"
	case len(work.Limits) == 0 && c.spaced:
		return "without a limit it is bullmq-per-second"
	}
	if _, err := c.installed(); err != nil {
		return "left out: " + err.Error()
	}
	return ""
}

// Command implements contest.Commander.
func (c contestant) Command(env contest.Env) (*exec.Cmd, error) {
	in, err := c.installed()
	if err != nil {
		return nil, err
	}
	var variables []string
	if len(env.Limits) > 0 {
		limits, err := json.Marshal(c.limiterFor(env.Limits[0]))
		if err != nil {
			return nil, fmt.Errorf("bullmq: limiter: %w", err)
		}
		variables = append(variables, limiterVariable+"="+string(limits))
	}
	return in.command(env, workerProgram, variables...)
}

// limiterFor returns the limit in BullMQ's terms: as many jobs as the rate allows, never more. BullMQ has no bursts:
// max is one.
func (c contestant) limiterFor(limit contest.Limit) limiter {
	const second = 1000
	n := 1
	if !c.spaced {
		n = max(int(limit.Rate), 1)
	}
	return limiter{Max: n, Duration: int(math.Ceil(float64(n) * second / limit.Rate))}
}

// Work implements contest.Contestant. It is never called, because the runner starts Command.
func (contestant) Work(context.Context, contest.Env, *contest.Probe) error {
	return fmt.Errorf("bullmq: run a worker in this process: %w", errors.ErrUnsupported)
}
