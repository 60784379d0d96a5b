package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks/web"
)

// FileDefault is where the commands look for their settings.
const FileDefault = "headway.yaml"

const (
	// ConcurrencyDefault is how many tasks one worker process runs at once.
	ConcurrencyDefault = 50
	// ShutdownTimeoutDefault is how long a stopping worker waits for running tasks.
	ShutdownTimeoutDefault = 30 * time.Second
)

// Where buckets are kept.
const (
	BucketsMongoDB = "mongodb"
	BucketsRedis   = "redis"
)

// Config is what headway.yaml says.
type Config struct {
	// Limits are sorted by name, their meters too.
	Limits []reservations.Limit
	// Buckets says where buckets are kept: BucketsMongoDB, BucketsRedis, or empty, which is MongoDB where MONGODB_URI is
	// set, and Redis otherwise.
	Buckets string
	// Queues are the queues a worker takes from, with their weights. Defaults to the queue "default".
	Queues map[string]int
	// Concurrency is the number of tasks that one worker process runs at once. Defaults to 50.
	Concurrency int
	// ShutdownTimeout bounds how long a stopping worker waits for running tasks. Defaults to 30 s.
	ShutdownTimeout time.Duration
	// MaxRefusals is how often in a row a task may be refused by its provider until that counts as a failure. Zero is the worker's default.
	MaxRefusals int
	// HTTP says what tasks that are requests of their own may call. Nothing where it is left out.
	HTTP HTTP
	// Estimates says what is done with what workers learn of their estimates.
	Estimates Estimates
	// Prices are what tokens cost, by the model that requests name. Nil where none are set.
	Prices map[string]Price
	// Recurring are the tasks that workers enqueue on a schedule, sorted by name.
	Recurring []scheduler.Recurring
}

// HTTP says what tasks that are HTTP requests of their own may do.
type HTTP struct {
	// AllowHosts are the hosts that may be called, see web.Config.
	AllowHosts []string `mapstructure:"allow_hosts"`
	// Secrets are the environment variables that a header may name as ${NAME}, each with the hosts that it may be sent to, see web.Secret.
	Secrets map[string][]string `mapstructure:"secrets"`
}

// Client is the configuration of a client; getenv has the values of the secrets.
func (h HTTP) Client(getenv func(string) string) web.Config {
	c := web.Config{AllowHosts: h.AllowHosts, Secrets: map[string]web.Secret{}}
	for name, hosts := range h.Secrets {
		c.Secrets[name] = web.Secret{Value: getenv(name), Hosts: hosts}
	}
	return c
}

// Estimates says how tokens are reserved. What is learned is told of all limits.
type Estimates struct {
	// Learn are the limits whose tasks reserve what was learned, instead of all that their requests allow themselves.
	Learn []string `mapstructure:"learn"`
	// Quantile is the share of requests, each counted by its size, that use no more than is reserved for them. Zero is the learner's default.
	Quantile float64 `mapstructure:"quantile"`
}

// Price is what a million tokens of a model cost, in any currency.
type Price struct {
	Input  float64 `mapstructure:"input"`
	Output float64 `mapstructure:"output"`
}

// Error holds every fault of one file, each naming its field.
type Error struct {
	File string
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.File, e.Err) }

// Unwrap returns the faults, joined.
func (e *Error) Unwrap() error { return e.Err }

// file is the shape of headway.yaml.
type file struct {
	Limits          map[string]limitFile `mapstructure:"limits"`
	Buckets         string               `mapstructure:"buckets"`
	Queues          map[string]int       `mapstructure:"queues"`
	Concurrency     int                  `mapstructure:"concurrency"`
	ShutdownTimeout time.Duration        `mapstructure:"shutdown_timeout"`
	MaxRefusals     int                  `mapstructure:"max_refusals"`
	HTTP            HTTP                 `mapstructure:"http"`
	Estimates       Estimates            `mapstructure:"estimates"`
	Prices          map[string]Price     `mapstructure:"prices"`

	Recurring map[string]recurringFile `mapstructure:"recurring"`
}

type limitFile struct {
	Meters   map[string]meterFile `mapstructure:"meters"`
	Settle   string               `mapstructure:"settle"`
	MaxWait  time.Duration        `mapstructure:"max_wait"`
	MaxBlock time.Duration        `mapstructure:"max_block"`
	Shards   int                  `mapstructure:"shards"`
	InFlight *int                 `mapstructure:"in_flight"`

	OrdinaryShare float64            `mapstructure:"ordinary_share"`
	Weights       map[string]float64 `mapstructure:"weights"`
	Priorities    map[string]float64 `mapstructure:"priorities"`
}

type meterFile struct {
	Rate        rateValue     `mapstructure:"rate"`
	Capacity    *float64      `mapstructure:"capacity"`
	MaxReserved reservedValue `mapstructure:"max_reserved"`
	Headroom    float64       `mapstructure:"headroom"`
	Window      windowValue   `mapstructure:"window"`
	Settle      string        `mapstructure:"settle"`
	Adaptive    *adaptiveFile `mapstructure:"adaptive"`
}

// Load reads and validates a file. The error is an *Error with all faults, or says that there is no such file and what to do.
func Load(name string) (Config, error) {
	text, err := read(name)
	if errors.Is(err, os.ErrNotExist) {
		return Config{}, &Error{File: name, Err: fmt.Errorf("%w: name another file with --config, or copy the headway.yaml of the repository", os.ErrNotExist)}
	}
	if err != nil {
		return Config{}, &Error{File: name, Err: err}
	}
	c, err := Parse(text)
	if err != nil {
		return Config{}, &Error{File: name, Err: err}
	}
	return c, nil
}

// read reads a file, and one that has no end no further than Parse needs to refuse it.
func read(name string) (text []byte, err error) {
	f, err := os.Open(name) //nolint:gosec // the user names the file
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(io.LimitReader(f, bytesMost+1))
}

// Parse reads the text of a headway.yaml. The error joins all faults, sorted, each naming its field.
func Parse(text []byte) (Config, error) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")) // editors on Windows begin a file so
	err := bounded(text)
	var raw map[string]any
	if err == nil {
		err = yaml.Unmarshal(text, &raw)
	}
	switch {
	case errors.Is(err, errBounds):
		return Config{}, err
	case err != nil:
		return Config{}, fmt.Errorf("not valid YAML: %s", shortened(yaml.FormatError(err, false, false)))
	}
	f, faults := decode(raw)
	faults = append(faults, others(f.validate(), faults)...)
	slices.SortStableFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) }) // maps have no order
	if n := len(faults) - faultsMost; n > 0 {
		faults = append(faults[:faultsMost], fmt.Errorf("and %d more faults", n))
	}
	if err = errors.Join(faults...); err != nil {
		return Config{}, err
	}
	return f.config(), nil
}

func (f file) config() Config {
	c := Config{
		Buckets: f.Buckets, Queues: f.Queues, Concurrency: f.Concurrency, ShutdownTimeout: f.ShutdownTimeout,
		MaxRefusals: f.MaxRefusals, HTTP: f.HTTP, Estimates: f.Estimates, Prices: f.Prices,
	}
	for _, name := range sortedKeys(f.Limits) {
		c.Limits = append(c.Limits, f.Limits[name].limit(name))
	}
	for _, name := range sortedKeys(f.Recurring) {
		made, _ := f.Recurring[name].recurring(name, c.Limits) // validate has listed the faults
		c.Recurring = append(c.Recurring, made)
	}
	if len(c.Queues) == 0 {
		c.Queues = map[string]int{"default": 1}
	}
	if c.Concurrency == 0 {
		c.Concurrency = ConcurrencyDefault
	}
	if c.ShutdownTimeout == 0 {
		c.ShutdownTimeout = ShutdownTimeoutDefault
	}
	return c
}

func (l limitFile) limit(name string) reservations.Limit {
	limit := reservations.Limit{
		Name: name, Settle: reservations.SettleMode(l.Settle), MaxWait: l.MaxWait, MaxBlock: l.MaxBlock, Shards: l.Shards,
		OrdinaryShare: l.OrdinaryShare, Weights: l.Weights, Priorities: l.Priorities,
	}
	for _, meter := range sortedKeys(l.Meters) {
		m := l.Meters[meter]
		rate, adaptive := m.rate()
		limit.Meters = append(limit.Meters, reservations.Meter{
			Name: meter, Rate: rate.tokens, Period: rate.period, Adaptive: adaptive, Capacity: m.capacity(), MaxReserved: m.MaxReserved.tokens(),
			Kind: m.Window.kind, Start: m.Window.start, Spread: m.Window.spread, Settle: reservations.SettleMode(m.Settle),
			Headroom: m.Headroom,
		})
	}
	if l.InFlight != nil {
		limit.Meters = append(limit.Meters, reservations.InFlight(*l.InFlight))
		slices.SortStableFunc(limit.Meters, func(a, b reservations.Meter) int { return strings.Compare(a.Name, b.Name) })
	}
	return limit
}

// capacity is that of the meter: nothing is one period's worth, and zero no burst.
func (m meterFile) capacity() float64 {
	switch {
	case m.Capacity == nil:
		return 0
	case *m.Capacity == 0:
		return reservations.NoBurst
	}
	return *m.Capacity
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
