package enqueue

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/internal/config"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// target is where tasks go, as the flags say: a queue, a limit, now or later.
type target struct {
	file    string
	limits  []string // as on the command line, the narrowest first
	key     string   // of the last of them
	queue   string
	in      time.Duration
	at      string
	startBy string
	reserve bool
	large   bool        // requests above a capacity
	common  tasks.Terms // how the requests share the limits: Urgent, Flow, Priority
	retries int
	keep    time.Duration
}

func (t *target) configFlag(c *cobra.Command) {
	c.Flags().StringVar(&t.file, "config", config.FileDefault, "the `file` with the limits")
}

// sharingFlags say how the requests share the limits with others.
func (t *target) sharingFlags(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&t.common.Urgent, "urgent", false,
		"start before ordinary tasks, within the headroom of the limits' meters")
	f.StringVar(&t.common.Flow, "flow", "",
		"the `NAME` of what the requests belong to, e.g. a tenant: flows that wait share a limit "+
			"by its weights; a batch is a flow of its own when left out")
	f.StringVar(&t.common.Priority, "priority", "", "one of the `priorities` of the limit; the lowest when left out")
}

// flags defines the flags of a command that enqueues. Redis keeps finished tasks for keep by default.
func (t *target) flags(c *cobra.Command, keep time.Duration, kept string) {
	f := c.Flags()
	t.configFlag(c)
	f.StringArrayVar(&t.limits, "limit", nil,
		"a `LIMIT[:KEY]` of headway.yaml that the requests take from; repeat it for several, the narrowest first, the "+
			"provider's last; if left out, the limit of the provider that lists the --model")
	f.StringVar(&t.key, "key", "", "the bucket of the last limit, e.g. a tenant, as LIMIT:KEY has it; empty is the "+
		"shared one")
	f.StringVar(&t.queue, "queue", "default", "the queue")
	f.DurationVar(&t.in, "in", 0, "run after this time, e.g. 90m")
	f.StringVar(&t.at, "at", "", "run at this time, e.g. 2026-12-24T18:00:00Z")
	f.StringVar(&t.startBy, "start-by", "",
		"end a task as expired that has not started by then: in 10m, or at 2026-12-24T18:00:00Z")
	f.BoolVar(&t.reserve, "reserve", false,
		"reserve tokens already now, so that each task is delivered exactly when it may start")
	f.BoolVar(&t.large, "allow-large", false,
		"send requests that reserve more than a capacity: each waits for a full bucket, and all others until it is paid back")
	t.sharingFlags(c)
	f.IntVar(&t.retries, "retries", 25, "how often a failed request is retried")
	f.DurationVar(&t.keep, "keep", keep, "how long Redis keeps a finished task"+kept)
}

// checkKeep wants finished tasks of a batch to be kept for longer than a chunk of it takes to be looked up and sent.
func (t *target) checkKeep() error {
	if t.keep < keepBatchMin {
		return cli.Usage("--keep %v must be at least %v for a batch: a request that ends while its file is enqueued again "+
			"would be sent twice", t.keep, keepBatchMin)
	}
	return nil
}

// options are the options of each task.
func (t *target) options(ctx context.Context, env cli.Environment) (tasks.Options, error) {
	usage := func(format string, args ...any) (tasks.Options, error) {
		return tasks.Options{}, cli.Usage(format, args...)
	}
	if strings.TrimSpace(t.queue) == "" {
		return usage("--queue must not be blank")
	}
	if t.in != 0 && t.at != "" {
		return usage("--in and --at exclude each other")
	}
	if t.in < 0 || t.retries < 0 || t.keep < 0 {
		return usage("--in, --retries and --keep must not be negative")
	}
	o := tasks.Options{Queue: t.queue, MaxRetry: t.retries, Retention: t.keep, Reserved: t.reserve}
	if t.retries == 0 {
		o.MaxRetry = tasks.NoRetry
	}
	if t.in > 0 {
		o.At = time.Now().Add(t.in)
	}
	if t.at != "" {
		at, err := time.Parse(time.RFC3339, t.at)
		if err != nil {
			return usage("--at: %q must look like 2026-12-24T18:00:00Z", t.at)
		}
		if past := time.Since(at); past > 0 {
			if err := cli.Confirm(ctx, env, "--at %s was %s ago: the requests run at once", t.at,
				leftText(past.Seconds())); err != nil {
				return o, err
			}
		}
		o.At = at
	}
	if t.startBy != "" {
		by, err := moment(t.startBy)
		if err != nil {
			return usage("--start-by: %w", err)
		}
		o.StartBy = by
	}
	return o, nil
}

// load reads the configuration and returns it, and what the requests take from. Without --limit it is the limit of the
// model. It needs no service.
func (t *target) load(model string) (config.Config, *source, error) {
	c, err := config.Load(t.file)
	if err != nil {
		return c, nil, err
	}
	if limit, known := c.Providers.LimitOf(model); len(t.limits) == 0 && known {
		t.limits = []string{limit}
	}
	if len(t.limits) == 0 {
		return c, nil, cli.Usage("--limit is required: name a limit of %s, or with --model a model of its providers",
			t.file)
	}
	from, err := newSource(c.Limits, t.limits, t.key)
	if err != nil {
		return c, nil, err
	}
	from.http, from.providers = c.HTTP, c.Providers
	if err = t.share(from); err != nil {
		return c, nil, &cli.UsageError{Err: err}
	}
	return c, from, nil
}

// warnOfQueue warns of a queue that the file does not have.
func (t *target) warnOfQueue(env cli.Environment, c config.Config) {
	if _, served := c.Queues[t.queue]; !served {
		cli.Warn(env, "%s has no queue %q: only a worker with a file that has it takes from there", t.file, t.queue)
	}
}

// share checks how the requests share the limits.
func (t *target) share(from *source) error {
	from.common = t.common
	headroom, priorities := false, false // of any of the limits
	for _, b := range from.buckets {
		headroom = headroom || b.limit.Rules().HasHeadroom()
		priorities = priorities || len(b.limit.Priorities) > 0
	}
	if t.common.Urgent && !headroom {
		return fmt.Errorf("--urgent: no meter of limit %s has headroom; give it some in %s, e.g. headroom: 50",
			from, t.file)
	}
	if t.common.Priority != "" && !priorities {
		return fmt.Errorf("--priority %s: limit %s has no priorities; name them in %s, "+
			"e.g. priorities: {interactive: 9, batch: 1}", t.common.Priority, from, t.file)
	}
	for _, b := range from.buckets {
		if err := from.checker.Validate(reservations.Charge{
			Limit: b.limit.Name, Key: b.key, Urgent: t.common.Urgent, Flow: t.common.Flow, Priority: t.common.Priority,
		}); err != nil {
			return err
		}
	}
	return nil
}

// moment reads a time, or how far it is in the future.
func moment(text string) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return time.Now().Add(d), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q must look like 10m or 2026-12-24T18:00:00Z", text)
	}
	return at, nil
}
