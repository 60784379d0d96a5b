// Package peers lists the alternatives to Headway, each as in its documentation and, if that helps, tuned.
package peers

import (
	"github.com/headway-go/headway/bench/contest"
	"github.com/headway-go/headway/bench/peers/blocking"
	"github.com/headway-go/headway/bench/peers/bullmq"
	"github.com/headway-go/headway/bench/peers/gcra"
	"github.com/headway-go/headway/bench/peers/rawasynq"
	"github.com/headway-go/headway/bench/peers/recipe"
	"github.com/headway-go/headway/bench/peers/spinning"
)

// All returns all peers, in the order of the report.
func All() []contest.Contestant {
	return append([]contest.Contestant{
		rawasynq.New(),
		recipe.AsWritten(), recipe.Tuned(),
		gcra.AsWritten(), gcra.Tuned(),
		blocking.Wait(), blocking.Sleep(),
		spinning.New(),
	}, bullmq.All()...)
}
