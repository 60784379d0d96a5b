// Package field lists all contestants.
package field

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/headway-go/headway/bench/contest"
	"github.com/headway-go/headway/bench/headway"
	"github.com/headway-go/headway/bench/peers"
)

// All returns all contestants, in the order of the report.
func All() []contest.Contestant { return append(headway.All(), peers.All()...) }

// Work is one worker process. Env is the value of contest.EnvVariable, and out gets the lines of the probe. Work
// returns when ctx has ended and the contestant has stopped.
func Work(ctx context.Context, env string, out io.Writer) error {
	var told contest.Env
	if err := json.Unmarshal([]byte(env), &told); err != nil {
		return fmt.Errorf("field: %s: %w", contest.EnvVariable, err)
	}
	for _, c := range All() {
		if c.Name() == told.Contestant {
			probe := contest.NewProbe(told, out)
			defer probe.Close()
			return profiled(told, func() error { return c.Work(ctx, told, probe) })
		}
	}
	return fmt.Errorf("field: there is no contestant %q", told.Contestant)
}
