// Package contest is the interface of all contestants of the benchmarks. A contestant enqueues the tasks of a work,
// and runs them as one worker process.
//
// A run has a new Redis server and a new MongoDB database; Env.Workers processes of the same program, each in Work; a
// Producer in the runner. The runner judges by the calls that arrive at its provider, never by reports of a
// contestant.
package contest

import (
	"context"
	"os/exec"
)

// Contestant is one way to run tasks under limits. Its methods may run in different processes, so they share only
// Env.
type Contestant interface {
	// Name is short, in lower case with dashes, e.g. "asynq-recipe". ONLY takes such names.
	Name() string
	// About is one sentence for the report: what the contestant is, and whether it follows its documentation or is
	// tuned, and how.
	About() string
	// Producer returns the producer of one run. It is called once per run, in the runner's process, before the
	// workers start, so it may also prepare the databases.
	Producer(ctx context.Context, env Env, probe *Probe) (Producer, error)
	// Work is one worker process. It runs at most Env.Slots handlers at once until ctx ends; then it stops gracefully
	// and returns nil. It calls probe.Ready when it takes tasks, probe.Delivered at the start of each handler, and
	// probe.Call to call the provider. Logs go to stderr; stdout belongs to the probe.
	Work(ctx context.Context, env Env, probe *Probe) error
}

// Producer enqueues tasks, in the given order. One goroutine may call it many times.
type Producer interface {
	// Enqueue returns when the tasks are stored. It should follow the advice of its documentation: in bulk if
	// possible.
	Enqueue(ctx context.Context, tasks []Task) error
	// Close closes connections and ends processes.
	Close() error
}

// Commander is a contestant whose workers are another program (Node). The runner starts the command instead of
// itself. The command gets Env as JSON in the variable EnvVariable, writes the lines of Probe (see Line) to stdout,
// and stops gracefully on SIGTERM.
type Commander interface {
	Command(env Env) (*exec.Cmd, error)
}

// Picky is a contestant that can't do every work. E.g. a contestant without a limit takes no part in works that judge
// limits.
type Picky interface {
	// Refuses returns the reason why the contestant takes no part in the work. Empty means that it takes part.
	Refuses(work Work) string
}

// Work describes a work to a contestant, before it takes part. Limits are the limits of Env.
type Work struct {
	// Name is the name of the work, e.g. "burst" or "mixed".
	Name   string
	Limits []Limit
	// Overestimated is true if tasks reserve more than they use.
	Overestimated bool
}

// Env describes a run to a contestant. Worker processes get it as JSON.
type Env struct {
	// Contestant and Work are their names.
	Contestant string `json:"contestant"`
	Work       string `json:"work"`
	// RedisURL is a server (or an empty database) for this run alone.
	RedisURL string `json:"redis_url"`
	// MongoURI and Database name a database that does not exist yet, and is dropped after the run.
	MongoURI string `json:"mongo_uri"`
	Database string `json:"database"`
	// ProviderURL is the counting provider, which Probe.Call calls. It is empty if the process itself counts calls.
	ProviderURL string `json:"provider_url"`
	// Limits are all limits of the work; a task names its own by Key. Empty means no limit at all.
	Limits []Limit `json:"limits"`
	// Slots is the number of handlers of one worker process, Workers the number of processes.
	Slots   int `json:"slots"`
	Workers int `json:"workers"`
	// Profile is a folder in which each worker process of this program writes a CPU profile. Empty means no profile.
	Profile string `json:"profile,omitempty"`
}

// EnvVariable is the environment variable with Env as JSON, for a worker process.
const EnvVariable = "HEADWAY_BENCH_ENV"

// QueueName is the queue that all contestants use.
const QueueName = "bench"

// Limit is a token bucket, shared by all worker processes: at most Burst + Rate * T tokens in any T seconds.
type Limit struct {
	// Key is the name of the limit in tasks: letters and digits.
	Key string `json:"key"`
	// Rate is in tokens a second. Burst is the most at once.
	Rate  float64 `json:"rate"`
	Burst float64 `json:"burst"`
}

// Task is one task of a work. It is the payload of a contestant's task, as JSON.
type Task struct {
	// Seq counts the tasks of a run from 0, in the order in which they are enqueued.
	Seq int `json:"seq"`
	// Key names its limit. It is empty for a task without a limit.
	Key string `json:"key,omitempty"`
	// Reserved is the number of tokens to take from the limit before the call. Used is the number of tokens that the
	// call uses in the end, at most Reserved. A contestant must not read Used before its call was answered.
	Reserved int `json:"reserved"`
	Used     int `json:"used"`
}

// Limit returns the limit of that key, and whether there is one.
func (e Env) Limit(key string) (Limit, bool) {
	for _, l := range e.Limits {
		if l.Key == key {
			return l, true
		}
	}
	return Limit{}, false
}
