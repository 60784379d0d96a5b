package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/api/estimates"
	"github.com/headway-go/headway/internal/fleet/settings"
	"github.com/headway-go/headway/internal/text/filekind"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks/web"
)

// FileDefault is the default file of the commands' settings.
const FileDefault = "headway.yaml"

// The values of Config.Buckets.
const (
	BucketsMongoDB = "mongodb"
	BucketsRedis   = "redis"
)

// Config is the content of headway.yaml.
type Config struct {
	Settings

	// Limits are sorted by name, their meters too.
	Limits []reservations.Limit
	// Providers get the calls of language models. Without any, OPENAI_BASE_URL and OPENAI_API_KEY name the provider.
	Providers Providers
	// Recurring are the tasks that workers enqueue on a schedule, sorted by name.
	Recurring []scheduler.Recurring
}

// Checker returns a limiter without buckets: it knows the limits, and checks charges and overrides.
func (c Config) Checker() *reservations.Limiter {
	l, _ := reservations.New(reservations.NoStore(), c.Limits, reservations.Config{}) // Parse has validated the limits
	return l
}

// Settings are the settings that a Config has as the file has them.
type Settings struct {
	// Buckets is the store of the buckets: BucketsMongoDB, BucketsRedis, or empty. Empty means MongoDB if MONGODB_URI
	// is set, else Redis.
	Buckets string `mapstructure:"buckets"`
	// Queues are the queues a worker takes from, with their weights. Defaults to the queue "default".
	Queues map[string]int `mapstructure:"queues"`
	// Concurrency is the number of tasks that one worker process runs at once. Defaults to 50.
	Concurrency int `mapstructure:"concurrency"`
	// ShutdownTimeout bounds how long a stopping worker waits for running tasks. Defaults to 30 s.
	ShutdownTimeout time.Duration `mapstructure:"shutdown_timeout"`
	// MaxRefusals is how often in a row the provider may refuse a task before that counts as a failure. Zero is the
	// worker's default.
	MaxRefusals int `mapstructure:"max_refusals"`
	// Unserved is how long a task waits for a worker that can serve it until it is archived. Zero means that it waits on.
	Unserved time.Duration `mapstructure:"unserved"`
	// HTTP bounds the calls of tasks that are HTTP requests of their own. Without it they call nothing.
	HTTP HTTP `mapstructure:"http"`
	// Estimates chooses the limits that use learned estimates.
	Estimates Estimates `mapstructure:"estimates"`
	// Prices are the prices of tokens, by the model that requests name. Nil if none is set.
	Prices map[string]Price `mapstructure:"prices"`
}

// HTTP bounds the calls of tasks that are HTTP requests of their own.
type HTTP struct {
	// AllowHosts are the hosts that tasks may call: see web.Config.
	AllowHosts []string `mapstructure:"allow_hosts"`
	// Secrets are the environment variables that a header may name as ${NAME}, each with its hosts: see web.Secret.
	Secrets map[string][]string `mapstructure:"secrets"`
}

// Client returns the configuration of a client. The values of the secrets come from getenv.
func (h HTTP) Client(getenv func(string) string) web.Config {
	c := web.Config{AllowHosts: h.AllowHosts, Secrets: map[string]web.Secret{}}
	for name, hosts := range h.Secrets {
		c.Secrets[name] = web.Secret{Value: getenv(name), Hosts: hosts}
	}
	return c
}

// Estimates chooses how tokens are reserved. Workers learn and report estimates of all limits.
type Estimates struct {
	// Learn are the limits whose tasks reserve the learned estimate, instead of the largest usage that their requests
	// allow.
	Learn []string `mapstructure:"learn"`
	// Quantile is the share of requests that use no more than their reservation, weighted by size. Zero is the
	// learner's default.
	Quantile float64 `mapstructure:"quantile"`
}

// Price is the price of a million tokens of a model, in any currency.
type Price = estimates.Price

// Error joins all faults of one file, each with its field.
type Error struct {
	File string
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.File, e.Err) }

// Unwrap returns the faults, joined.
func (e *Error) Unwrap() error { return e.Err }

// file is the structure of headway.yaml.
type file struct {
	Settings `mapstructure:",squash"`

	Limits    map[string]limitFile     `mapstructure:"limits"`
	Providers map[string]Provider      `mapstructure:"providers"`
	Recurring map[string]recurringFile `mapstructure:"recurring"`

	unread bool // a limit or a part of it can't be decoded, so others that name it can't be checked
}

type limitFile struct {
	Meters   map[string]meterFile `mapstructure:"meters"`
	Settle   string               `mapstructure:"settle"`
	MaxWait  time.Duration        `mapstructure:"max_wait"`
	MaxBlock time.Duration        `mapstructure:"max_block"`
	Shards   int                  `mapstructure:"shards"`
	InFlight *int                 `mapstructure:"in_flight"`

	OrdinaryShare float64            `mapstructure:"ordinary_share"`
	Flows         string             `mapstructure:"flows"`
	Weights       map[string]float64 `mapstructure:"weights"`
	Priorities    map[string]float64 `mapstructure:"priorities"`

	Allow map[string][]string `mapstructure:"allow"`
}

type meterFile struct {
	Rate        rateValue     `mapstructure:"rate"`
	Capacity    capacityValue `mapstructure:"capacity"`
	MaxReserved reservedValue `mapstructure:"max_reserved"`
	Headroom    float64       `mapstructure:"headroom"`
	Window      windowValue   `mapstructure:"window"`
	Settle      string        `mapstructure:"settle"`
	Adaptive    *adaptiveFile `mapstructure:"adaptive"`
}

// Load reads and validates a file. The error is an *Error with all faults, or with the advice for a missing file.
func Load(name string) (Config, error) {
	text, err := read(name)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w: name another file with --config, or write one with `headway init`", os.ErrNotExist)
	}
	var c Config
	if err == nil {
		c, err = Parse(text)
	}
	if err != nil {
		return Config{}, &Error{File: name, Err: err}
	}
	return c, nil
}

// read reads a file, but only as far as Parse needs to refuse it as too large.
func read(name string) (text []byte, err error) {
	f, err := os.Open(name) //nolint:gosec // the user names the file
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(io.LimitReader(f, bytesMost+1))
}

// Parse parses the text of a headway.yaml. The error joins all faults, sorted, each with its field.
func Parse(text []byte) (Config, error) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")) // some editors on Windows write it
	// YAML may be in any encoding of Unicode.
	if kind := filekind.Of(text); kind.Name != "" && !strings.HasPrefix(kind.Name, "UTF-") {
		return Config{}, fmt.Errorf("is %s, not YAML: %s", kind.Name, kind.Advice)
	}
	raw, err := parsed(text)
	switch {
	case err != nil:
		return Config{}, err
	case len(raw) == 0:
		return Config{}, errors.New("the file is empty: add limits, or delete it and run `headway init`")
	}
	f, faults := decode(raw)
	c, found := f.config()
	faults = append(faults, others(append(f.validate(c), found...), faults)...)
	// the order of maps is random
	slices.SortStableFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	if n := len(faults) - faultsMost; n > 0 {
		faults = append(faults[:faultsMost], fmt.Errorf("and %d more faults", n))
	}
	if err = errors.Join(faults...); err != nil {
		return Config{}, err
	}
	return c, nil
}

// unquoted is a hint to quote the first value that begins with a sign of YAML, or not to indent with tabs; empty if
// there is neither.
func unquoted(text []byte) string {
	if tab := regexp.MustCompile(`(?m)^[ ]*\t`).FindIndex(text); tab != nil {
		return fmt.Sprintf("; line %d: indent with spaces, not with tabs", bytes.Count(text[:tab[0]], []byte("\n"))+1)
	}
	found := regexp.MustCompile("(?m)^[ \\t-]*([\\w-]+):[ \\t]+([@*%&!`].*?)[ \\t\\r]*$").FindSubmatchIndex(text)
	if found == nil {
		return ""
	}
	line := bytes.Count(text[:found[2]], []byte("\n")) + 1
	return fmt.Sprintf("; line %d: quote the value, as in %s: %q", line, text[found[2]:found[3]], text[found[4]:found[5]])
}

// config returns the settings with their defaults, and the faults of recurring tasks.
func (f file) config() (c Config, faults []error) {
	c = Config{Settings: f.Settings, Providers: f.providers()}
	for _, name := range slices.Sorted(maps.Keys(f.Limits)) {
		c.Limits = append(c.Limits, f.Limits[name].limit(name))
	}
	for _, name := range slices.Sorted(maps.Keys(f.Recurring)) {
		made, err := f.Recurring[name].recurring(name, c)
		found := below("recurring."+name, err)
		if f.unread {
			found = notWithin(found, "recurring."+name+".task")
		}
		faults = append(faults, found...)
		c.Recurring = append(c.Recurring, made)
	}
	if len(c.Queues) == 0 {
		c.Queues = map[string]int{"default": 1}
	}
	if c.ShutdownTimeout == 0 {
		c.ShutdownTimeout = settings.ShutdownTimeout
	}
	return c, faults
}

// The words of limits.NAME.flows.
const (
	flowsTask   = "task" // the default
	flowsTenant = "tenant"
)

func (l limitFile) limit(name string) reservations.Limit {
	limit := reservations.Limit{
		Name: name, Settle: reservations.SettleMode(l.Settle), MaxWait: l.MaxWait, MaxBlock: l.MaxBlock, Shards: l.Shards,
		OrdinaryShare: l.OrdinaryShare, IgnoreFlows: l.Flows == flowsTenant, Weights: l.Weights,
		Priorities: l.Priorities, Allow: l.Allow,
	}
	for _, meter := range slices.Sorted(maps.Keys(l.Meters)) {
		m := l.Meters[meter]
		rate, adaptive := m.rate()
		limit.Meters = append(limit.Meters, reservations.Meter{
			Name: meter, Rate: rate.tokens, Period: rate.period, Adaptive: adaptive, Capacity: float64(m.Capacity),
			MaxReserved: float64(m.MaxReserved),
			Kind:        m.Window.kind, Start: m.Window.start, Spread: m.Window.spread,
			Settle:   reservations.SettleMode(m.Settle),
			Headroom: m.Headroom,
		})
	}
	if l.InFlight != nil {
		limit.Meters = append(limit.Meters, reservations.InFlight(*l.InFlight))
		slices.SortStableFunc(limit.Meters, func(a, b reservations.Meter) int { return strings.Compare(a.Name, b.Name) })
	}
	return limit
}
