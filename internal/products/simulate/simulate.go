package simulate

import (
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/headway-go/headway/reservations"
)

// Run plays calls against limits, until all have ended. The calls must be in the order of their arrival. The error
// names the first call that can't be simulated, with its field and value; or it matches reservations.ErrInvalidLimit.
func Run(limits []reservations.Limit, calls []Call, config Config) (Result, error) {
	config, err := config.complete()
	if err != nil {
		return Result{}, err
	}
	limiter, err := reservations.New(reservations.NoStore(), limits, reservations.Config{})
	if err != nil {
		return Result{}, err
	}
	f := &fleet{
		config: config, limiter: limiter, boxes: map[reservations.BucketName]*box{}, flows: map[string]int{},
		free:   config.Slots,
		random: rand.New(rand.NewPCG(config.Seed, 0)), //nolint:gosec // a simulation
		series: &recorder{step: stepFirst, ends: stepFirst},
	}
	if config.Slots == 0 {
		f.free = len(calls) + 1
	}
	if !slices.IsSortedFunc(calls, func(a, b Call) int { return int(max(-1, min(1, a.At-b.At))) }) {
		return Result{}, errors.New("calls must be in the order of their arrival")
	}
	if err = f.play(calls); err != nil {
		return Result{}, err
	}
	return f.finished(calls), nil
}
