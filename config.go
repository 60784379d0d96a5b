package headway

import (
	"maps"
	"slices"

	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// Job is one attempt of a task.
type Job[T tasks.Args] = worker.Job[T]

// Charge is what a task takes from one limit.
type Charge = reservations.Charge

// Tokens are amounts by meter.
type Tokens = reservations.Tokens

// Options are the options of a task.
type Options = tasks.Options

// Limits are the meters of limits, by the name of the limit.
type Limits map[string][]reservations.Meter

// Config holds the settings of a Client. The zero value knows no limits.
type Config struct {
	// Limits are the limits that have meters alone. Defaults to none.
	Limits Limits
	// FullLimits are the limits with more settings than meters, such as weights, priorities or shards. Load sets them.
	// Defaults to none.
	FullLimits []reservations.Limit
	// Store has the buckets. Close it after the client. Defaults to the Redis of the client.
	Store reservations.Store
	// Worker has the settings of Run: queues, concurrency, events, the logger. Overrides defaults to the method of the
	// Store.
	Worker worker.Config
	// Reservations has the settings of the limiter, such as limits from a database of the program.
	Reservations reservations.Config

	file    string // that Load has read; empty for none
	inMongo bool   // the file says that the buckets are in MongoDB
}

// Load reads a headway.yaml, so that a program and Headway's commands share one file. It returns the limits, the queues
// and the settings of the worker. Providers and recurring tasks of the file are for the commands. The error names each
// fault with its field.
func Load(file string) (Config, error) {
	f, err := config.Load(file)
	if err != nil {
		return Config{}, err
	}
	return Config{
		FullLimits: f.Limits,
		Worker: worker.Config{
			Queues: f.Queues, Concurrency: f.Concurrency, ShutdownTimeout: f.ShutdownTimeout,
			MaxRefusals: f.MaxRefusals, Unserved: f.Unserved,
		},
		file: file, inMongo: f.Buckets == config.BucketsMongoDB,
	}, nil
}

// limits are all limits of the config.
func (c Config) limits() []reservations.Limit {
	all := slices.Clone(c.FullLimits)
	for _, name := range slices.Sorted(maps.Keys(c.Limits)) {
		all = append(all, reservations.Limit{Name: name, Meters: c.Limits[name]})
	}
	return all
}

// PerSecond is a meter of rate tokens a second. The largest burst is one second's worth. Other meters are literals: see
// reservations.Meter.
func PerSecond(name string, rate float64) reservations.Meter {
	return reservations.PerSecond(name, rate)
}

// PerMinute is a meter of rate tokens a minute. The largest burst is one minute's worth.
func PerMinute(name string, rate float64) reservations.Meter {
	return reservations.PerMinute(name, rate)
}

// PerDay is a meter of rate tokens a day, from midnight to midnight UTC.
func PerDay(name string, rate float64) reservations.Meter { return reservations.PerDay(name, rate) }

// InFlight is a meter that lets at most that many calls run at once.
func InFlight(calls int) reservations.Meter { return reservations.InFlight(calls) }
