package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/internal/setup/connect"
	"github.com/headway-go/headway/reservations"
)

// checked is one thing that `headway check` looked at.
type checked struct {
	What   string `json:"what"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// print shows a finding: to standard output what is well, to standard error what is not.
func (f checked) print(env cli.Environment) {
	to, mark := env.Out, "ok   "
	if !f.OK {
		to, mark = env.Err, "FAULT"
	}
	fmt.Fprintf(to, "%s  %s: %s\n", mark, f.What, strings.ReplaceAll(f.Detail, "\n", "\n       "))
}

func checkCommand(env cli.Environment) *cobra.Command {
	var asJSON, offline bool
	var file string
	c := &cobra.Command{
		Use:   "check",
		Short: "Validate the settings and ask the services",
		Long: `Check reads the settings as "headway worker" would, and reports every fault at once with its file and field. It
asks Redis and MongoDB for a sign of life, and each provider for its models, which costs nothing. It compares the limits
with the limits of the workers that run, and warns of a limit that no worker has. It changes nothing, except that it
creates MongoDB's indexes, and stores where buckets are.`,
		Example: `  headway check
  REDIS_URL=rediss://user:password@redis.example.com:6380/0 headway check --json`,
	}
	configFlag(c, &file)
	c.Flags().BoolVar(&offline, "skip-provider", false, "do not ask the providers, e.g. in a health check")
	c.Flags().BoolVar(&asJSON, "json", false, "print the findings as a JSON list")
	c.RunE = func(c *cobra.Command, _ []string) error {
		all := check(c.Context(), file, offline, env.Getenv)
		if asJSON {
			return errors.Join(cli.JSON(env.Out).Encode(all.checked), all.err())
		}
		for _, f := range all.checked {
			f.print(env)
		}
		return all.err()
	}
	return c
}

// findings are what a check has found so far.
type findings struct {
	checked []checked
	faults  []error
}

// add adds what was looked at. The detail of a fault is its error.
func (f *findings) add(what, detail string, err error) {
	if err != nil {
		detail = err.Error()
		if named := (*config.Error)(nil); errors.As(err, &named) {
			detail = named.Err.Error() // what names the file already
		}
		f.faults = append(f.faults, err)
	}
	f.checked = append(f.checked, checked{What: what, OK: err == nil, Detail: detail})
}

// err is nil if nothing is at fault.
func (f *findings) err() error {
	if len(f.faults) == 0 {
		return nil
	}
	return &cli.ShownError{
		Summary: fmt.Sprintf("%d of %d checks failed", len(f.faults), len(f.checked)), Err: errors.Join(f.faults...),
	}
}

// check looks at everything, also after the first fault.
func check(ctx context.Context, file string, offline bool, getenv func(string) string) *findings {
	f := &findings{}
	c, err := config.Load(file)
	f.add(file, fmt.Sprintf("limits %d, queues %d, concurrency %d", len(c.Limits), len(c.Queues), c.Concurrency), err)
	f.limits(c.Limits)
	f.recurring(c)
	f.stores(ctx, c, getenv)
	providers, err := providersOf(c, getenv)
	f.providers(ctx, providers, err, offline, getenv)
	f.secrets(c.HTTP, providers, getenv)
	return f
}

// secrets adds which secrets are set. A missing one is no fault where only tasks are enqueued.
func (f *findings) secrets(http config.HTTP, providers config.Providers, getenv func(string) string) {
	able := len(http.AllowHosts) > 0 || slices.ContainsFunc(providers, func(p config.Provider) bool {
		return !p.Lacks(getenv)
	})
	for _, p := range providers {
		key := "is set"
		switch {
		case p.Key == "":
			continue
		case p.Lacks(getenv) && able:
			key = "is not set: this worker would send all calls of the provider back to the queue"
		case p.Lacks(getenv):
			key = "is not set: enough to enqueue, but `headway worker` does not start without it"
		}
		f.add(p.Key, key, cli.CheckVariable(getenv, p.Key))
	}
	for _, name := range slices.Sorted(maps.Keys(http.Secrets)) {
		if err := cli.CheckVariable(getenv, name); err != nil {
			f.add(name, "", err)
		}
		if getenv(name) == "" {
			f.add(name, "is not set, and http.secrets lists it: enough to enqueue, but `headway worker` does not "+
				"start without it", nil)
		}
	}
}

// stores looks at the services and at where buckets are kept.
func (f *findings) stores(ctx context.Context, c config.Config, getenv func(string) string) {
	queue, err := connect.Redis(ctx, getenv)
	f.add("Redis", "answers", err)
	if err == nil {
		defer func() { _ = queue.Close() }()
		f.workers(ctx, queue, c.Limits)
	}
	var missing error
	if getenv("MONGODB_URI") == "" {
		f.add("MongoDB", "MONGODB_URI is not set: batches, results and records of dead tasks are in Redis", nil)
	} else {
		var mongo *connect.Buckets
		if mongo, missing = connect.Mongo(ctx, getenv, nil); missing == nil {
			_ = mongo.Close(ctx) // it was only asked for a sign of life
		}
		f.add("MongoDB", "answers", missing)
	}
	if err != nil || missing != nil {
		return // the buckets can't be asked
	}
	buckets, err := connect.Open(ctx, getenv, c.Buckets, queue, nil)
	f.add("buckets", "are in "+connect.Kept(getenv, c.Buckets), err)
	if err == nil {
		f.overrides(ctx, c, buckets)
		_ = buckets.Close(ctx) // as above
	}
}

// overrides adds what "limits set" has set, and warns of what is ignored. That is no fault, because the limits of the
// file count in its place.
func (f *findings) overrides(ctx context.Context, c config.Config, buckets *connect.Buckets) {
	list, err := buckets.Overrides(ctx)
	if err != nil && list == nil {
		f.add("overrides", "", err)
		return
	}
	if err = errors.Join(err, inside.Of(c.Checker()).SetOverrides(list)); err == nil && len(list) == 0 {
		return
	}
	lines := []string{fmt.Sprintf("%d set", len(list))}
	if err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			lines = append(lines, "warning: ignored: "+line)
		}
	}
	f.add("overrides", strings.Join(lines, "\n"), nil)
}

// workers compares the limits of the file with the limits of the workers that run. A difference is no fault: the
// workers may be about to get this file.
func (f *findings) workers(ctx context.Context, queue redis.UniversalClient, limits []reservations.Limit) {
	members, err := register.New(queue).Members(ctx)
	if err != nil || len(members) == 0 {
		return
	}
	own := register.Member{Limits: register.ByName(limits)}
	lines := []string{fmt.Sprintf("%d live", len(members))}
	for _, m := range members {
		for _, d := range own.Differences(m) {
			lines = append(lines, fmt.Sprintf("warning: %s has other settings for limit %s, meter %s: %s; this file has: %s",
				m.Name, d.Limit, d.Meter, cmp.Or(d.There, "no such meter"), cmp.Or(d.Here, "no such meter")))
		}
	}
	for _, l := range limits {
		if register.Lacking(members, register.Need{Limit: l.Name}) != nil {
			lines = append(lines, fmt.Sprintf("warning: no live worker has limit %s: its tasks wait for one that does", l.Name))
		}
	}
	f.add("workers", strings.Join(lines, "\n"), nil)
}

// recurring adds the recurring tasks with their schedules.
func (f *findings) recurring(c config.Config) {
	for _, r := range c.Recurring {
		f.add("recurring "+r.Name, fmt.Sprintf("%s %s: a task %s", r.Spec, cmp.Or(r.Zone, "UTC"), r.Args.TaskType()), nil)
	}
}

// limits adds each limit as it was understood, and settings that are allowed but may be a mistake.
func (f *findings) limits(limits []reservations.Limit) {
	for _, l := range limits {
		lines := make([]string, 0, len(l.Meters)+1)
		for _, m := range l.Meters {
			lines = append(lines, m.Name+" "+register.MeterText(m))
		}
		var whole []string
		if l.Settle != "" {
			whole = append(whole, "settle "+string(l.Settle))
		}
		if bucket.Rules(l).HasHeadroom() {
			whole = append(whole, fmt.Sprintf("ordinary_share %v", bucket.Rules(l).OrdinaryShare))
		}
		if l.MaxWait > 0 {
			whole = append(whole, "max_wait "+l.MaxWait.String())
		}
		if l.MaxBlock > 0 {
			whole = append(whole, "max_block "+l.MaxBlock.String())
		}
		if l.Shards > 1 {
			whole = append(whole, fmt.Sprintf("shards %d", l.Shards))
		}
		if len(l.Priorities) > 0 {
			whole = append(whole, "priorities "+cli.Tokens(l.Priorities))
		}
		if len(l.Weights) > 0 {
			whole = append(whole, "weights "+cli.Tokens(l.Weights))
		}
		if len(whole) > 0 {
			lines = append(lines, strings.Join(whole, ", "))
		}
		for _, warning := range config.Warnings(l) {
			lines = append(lines, "warning: "+warning)
		}
		f.add("limit "+l.Name, strings.Join(lines, "\n"), nil)
	}
}
