// Package contest is what every contestant of the benchmarks has to be: somebody who can send the tasks of a work, and
// be one worker process that runs them.
//
// A run is: a fresh Redis server and a fresh MongoDB database; Env.Workers processes of the same program, each in Work; a
// Producer in the runner. The runner judges by what arrives at its provider, never by what a contestant says of itself.
package contest

import (
	"context"
	"os/exec"
)

// Contestant is one way to run tasks under limits. Its methods may be called in different processes, so what they share is
// in Env alone.
type Contestant interface {
	// Name is short, in lower case with dashes, and how ONLY names it: "asynq-recipe".
	Name() string
	// About is one sentence for the report: what it is, whether as written in its documentation or tuned, and how.
	About() string
	// Producer makes what enqueues the tasks of one run. It is called once a run, in the runner's process, before the workers
	// start, so it may also prepare the databases.
	Producer(ctx context.Context, env Env, probe *Probe) (Producer, error)
	// Work is one worker process: at most Env.Slots handlers at once, until ctx ends; then it stops in good order and returns nil.
	// It calls probe.Ready when it takes tasks, probe.Delivered first thing in each handler, and probe.Call where the handler calls
	// the provider. What asynq or a library logs goes to stderr; stdout belongs to the probe.
	Work(ctx context.Context, env Env, probe *Probe) error
}

// Producer enqueues tasks, in the order given. It may be called many times, from one goroutine.
type Producer interface {
	// Enqueue returns when the tasks are stored. It should do so as its users would be told to: in bulk where that exists.
	Enqueue(ctx context.Context, tasks []Task) error
	// Close gives back connections and processes.
	Close() error
}

// Commander is a contestant whose workers are another program (Node): the runner starts the command instead of itself. It gets Env as
// JSON in the variable EnvVariable, writes the lines of Probe (see Line) to stdout, and stops in good order on SIGTERM.
type Commander interface {
	Command(env Env) (*exec.Cmd, error)
}

// Picky is a contestant that can't do every work: one without a limit takes no part where limits are judged.
type Picky interface {
	// Refuses says in a few words why the contestant takes no part in the work; empty means that it does.
	Refuses(work Work) string
}

// Work is what a contestant may want to know of a work before it takes part. Limits are those of Env.
type Work struct {
	// Name is the work's: "burst", "mixed".
	Name   string
	Limits []Limit
	// Overestimated says that tasks reserve more than they use.
	Overestimated bool
}

// Env is all that a contestant is told about a run. It is passed to worker processes as JSON.
type Env struct {
	// Contestant and Work are names.
	Contestant string `json:"contestant"`
	Work       string `json:"work"`
	// RedisURL is a server (or an empty database) of this run alone.
	RedisURL string `json:"redis_url"`
	// MongoURI and Database name a database that does not exist yet, and is dropped after the run.
	MongoURI string `json:"mongo_uri"`
	Database string `json:"database"`
	// ProviderURL is the counting provider; Probe.Call talks to it. Empty where calls are counted in the process.
	ProviderURL string `json:"provider_url"`
	// Limits are all limits of the work; a task names its own by Key. Empty means no limit at all.
	Limits []Limit `json:"limits"`
	// Slots is how many handlers may run at once in one worker process, Workers how many processes there are.
	Slots   int `json:"slots"`
	Workers int `json:"workers"`
	// Profile is a folder in which each worker process of this program leaves a profile of the CPU. Empty is none.
	Profile string `json:"profile,omitempty"`
}

// EnvVariable is the environment variable that carries Env as JSON to a worker process.
const EnvVariable = "HEADWAY_BENCH_ENV"

// QueueName is the queue that all contestants use.
const QueueName = "bench"

// Limit is a token bucket, shared by all worker processes: at most Burst + Rate * T tokens in any T seconds.
type Limit struct {
	// Key is what tasks name it by: letters and digits.
	Key string `json:"key"`
	// Rate is tokens a second, Burst the most at once.
	Rate  float64 `json:"rate"`
	Burst float64 `json:"burst"`
}

// Task is one task of a work; contestants carry it in their payload, as JSON.
type Task struct {
	// Seq counts the tasks of a run from 0, in the order in which they are enqueued.
	Seq int `json:"seq"`
	// Key names its limit. Empty where it has none.
	Key string `json:"key,omitempty"`
	// Reserved is how many tokens have to be taken from the limit before the call, Used how many the call uses in the end
	// (whole numbers; Used is never above Reserved). A contestant must not look at Used before its call was answered.
	Reserved int `json:"reserved"`
	Used     int `json:"used"`
}

// Limit is the limit of that key, and whether there is one.
func (e Env) Limit(key string) (Limit, bool) {
	for _, l := range e.Limits {
		if l.Key == key {
			return l, true
		}
	}
	return Limit{}, false
}
