// Package peers enters what people use instead of Headway, each as its documentation says and, where that leaves something to be
// gained, tuned.
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

// All are all peers, in the order of the report.
func All() []contest.Contestant {
	return append([]contest.Contestant{
		rawasynq.New(),
		recipe.AsWritten(), recipe.Tuned(),
		gcra.AsWritten(), gcra.Tuned(),
		blocking.Wait(), blocking.Sleep(),
		spinning.New(),
	}, bullmq.All()...)
}
