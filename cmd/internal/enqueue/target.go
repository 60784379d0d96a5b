package enqueue

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/internal/products/requests"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/internal/text/period"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// limitSet is the limits of a limiter at one moment.
type limitSet interface {
	For(name, key string) (reservations.Limit, error)
}

// target is where tasks go, as the flags say: a queue, a limit, now or later.
type target struct {
	file    string
	own     limitSet // the limits of the file; nil before it is read, and without one
	limits  []string // as on the command line, the narrowest first
	key     string   // of the last of them
	queue   string
	in      time.Duration
	at      string
	startBy string
	model   string      // of all requests; empty: each line's own
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
		"the `NAME` of what the requests belong to, e.g. a user: flows that wait share the part of "+
			"their tenant by weights; a batch is a flow of its own when left out")
	f.StringVar(&t.common.Priority, "priority", "", "one of the `priorities` of the limit; the lowest when left out")
}

// flags defines the flags of a command that enqueues. Redis keeps finished tasks for keep by default.
func (t *target) flags(c *cobra.Command, keep time.Duration, kept string) {
	f := c.Flags()
	t.configFlag(c)
	f.StringArrayVar(&t.limits, "limit", nil,
		"a `LIMIT[:KEY]` of headway.yaml, or else of live workers, that the requests take from; repeat it for several, "+
			"the narrowest first, the provider's last; if left out, the limit of the provider that lists the --model")
	f.StringVar(&t.key, "key", "", "the bucket of the last limit, e.g. a tenant, as LIMIT:KEY has it; empty is the "+
		"shared one")
	f.StringVar(&t.queue, "queue", "default", "the queue")
	f.Var((*period.Flag)(&t.in), "in", "run after this time, e.g. 90m or 2d")
	f.StringVar(&t.at, "at", "", "run at this time, e.g. 2026-12-24T18:00:00Z")
	f.StringVar(&t.startBy, "start-by", "",
		"end a task as expired that has not started by then: in 10m, or at 2026-12-24T18:00:00Z")
	f.BoolVar(&t.large, "allow-large", false,
		"send requests that reserve more than a capacity: each waits for a full bucket, and all others until it is paid back")
	t.sharingFlags(c)
	f.IntVar(&t.retries, "retries", requests.Retries, "how often a failed request is retried")
	t.keepFlag(c, keep, kept)
}

// keepFlag defines how long Redis keeps finished tasks, by default for keep.
func (t *target) keepFlag(c *cobra.Command, keep time.Duration, kept string) {
	t.keep = keep
	c.Flags().Var((*period.Flag)(&t.keep), "keep", "how long Redis keeps a finished task"+kept)
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
	o := tasks.Options{Queue: t.queue, MaxRetry: t.retries, Retention: t.keep}
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

// moment reads a time, or how far it is in the future.
func moment(text string) (time.Time, error) {
	if d, err := period.Parse(text); err == nil {
		return time.Now().Add(d), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q must look like 10m or 2026-12-24T18:00:00Z", text)
	}
	return at, nil
}
