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

	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/internal/config"
	"github.com/headway-go/headway/internal/connect"
	"github.com/headway-go/headway/internal/register"
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
with the limits of the workers that run. It changes nothing, except that it creates MongoDB's indexes, and stores where
buckets are.`,
		Example: `  headway check
  REDIS_URL=rediss://user:password@redis.example.com:6380/0 headway check --json`,
	}
	configFlag(c, &file)
	c.Flags().BoolVar(&offline, "skip-provider", false, "do not ask the providers, e.g. in a health check")
	c.Flags().BoolVar(&asJSON, "json", false, "print the findings as a JSON list")
	c.RunE = func(c *cobra.Command, _ []string) error {
		findings, err := check(c.Context(), file, offline, env.Getenv)
		if asJSON {
			return errors.Join(cli.JSON(env.Out).Encode(findings), err)
		}
		for _, f := range findings {
			f.print(env)
		}
		return err
	}
	return c
}

// check looks at everything, also after the first fault.
func check(ctx context.Context, file string, offline bool, getenv func(string) string) ([]checked, error) {
	var findings []checked
	var faults []error
	note := func(what, detail string, err error) {
		if err != nil {
			detail = err.Error()
			if f := (*config.Error)(nil); errors.As(err, &f) {
				detail = f.Err.Error() // what names the file already
			}
			faults = append(faults, err)
		}
		findings = append(findings, checked{What: what, OK: err == nil, Detail: detail})
	}
	c, err := config.Load(file)
	note(file, fmt.Sprintf("limits %d, queues %d, concurrency %d", len(c.Limits), len(c.Queues), c.Concurrency), err)

	findings = append(findings, checkedLimits(c.Limits)...)
	checkStores(ctx, c, getenv, note)
	checkProviders(ctx, c, offline, getenv, note)
	findings = append(findings, checkedSecrets(c, getenv)...)
	if len(faults) == 0 {
		return findings, nil
	}
	return findings, &cli.ShownError{
		Summary: fmt.Sprintf("%d of %d checks failed", len(faults), len(findings)),
		Err:     errors.Join(faults...),
	}
}

// checkedSecrets says which secrets are set. A missing one is no fault where only tasks are enqueued.
func checkedSecrets(c config.Config, getenv func(string) string) (findings []checked) {
	providers, _ := providersOf(c, getenv) // checkProviders reports the fault
	able := len(c.HTTP.AllowHosts) > 0 || slices.ContainsFunc(providers, func(p config.Provider) bool {
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
		findings = append(findings, checked{What: p.Key, OK: true, Detail: key})
	}
	for _, name := range slices.Sorted(maps.Keys(c.HTTP.Secrets)) {
		if getenv(name) == "" { // no fault where only tasks are enqueued
			findings = append(findings, checked{
				What: name, OK: true,
				Detail: "is not set, and http.secrets lists it: enough to enqueue, but `headway worker` does not " +
					"start without it",
			})
		}
	}
	return findings
}

// checkStores looks at the services and at where buckets are kept.
func checkStores(
	ctx context.Context, c config.Config, getenv func(string) string, note func(what, detail string, err error),
) {
	said := c.Buckets
	queue, err := connect.Redis(ctx, getenv)
	note("Redis", "answers", err)
	if err == nil {
		defer func() { _ = queue.Close() }()
		checkWorkers(ctx, queue, c.Limits, note)
	}
	var missing error
	if getenv("MONGODB_URI") == "" {
		note("MongoDB", "MONGODB_URI is not set: no batches, results and records of dead tasks", nil)
	} else {
		var mongo *connect.Buckets
		if mongo, missing = connect.Mongo(ctx, getenv, nil); missing == nil {
			_ = mongo.Close(ctx) // it was only asked for a sign of life
		}
		note("MongoDB", "answers", missing)
	}
	if err != nil || missing != nil {
		return // the buckets can't be asked
	}
	buckets, err := connect.Open(ctx, getenv, said, queue, nil)
	note("buckets", "are in "+connect.Kept(getenv, said), err)
	if err == nil {
		_ = buckets.Close(ctx) // as above
	}
}

// checkWorkers compares the limits of the file with the limits of the workers that run. A difference is no fault: the
// workers may be about to get this file.
func checkWorkers(
	ctx context.Context, queue redis.UniversalClient, limits []reservations.Limit,
	note func(what, detail string, err error),
) {
	members, err := register.New(queue).Members(ctx)
	if err != nil || len(members) == 0 {
		return
	}
	own := register.Member{Limits: register.LimitTexts(limits)}
	lines := []string{fmt.Sprintf("%d live", len(members))}
	for _, m := range members {
		for _, d := range own.Differences(m) {
			lines = append(lines, fmt.Sprintf("warning: %s has other settings for limit %s, meter %s: %s; this file has: %s",
				m.Name, d.Limit, d.Meter, cmp.Or(d.There, "no such meter"), cmp.Or(d.Here, "no such meter")))
		}
	}
	note("workers", strings.Join(lines, "\n"), nil)
}

// checkedLimits returns each limit as it was understood, and settings that are allowed but may be a mistake.
func checkedLimits(limits []reservations.Limit) []checked {
	var findings []checked
	for _, l := range limits {
		lines := make([]string, 0, len(l.Meters)+1)
		for _, m := range l.Meters {
			lines = append(lines, m.Name+" "+register.MeterText(m))
		}
		var whole []string
		if l.Settle != "" {
			whole = append(whole, "settle "+string(l.Settle))
		}
		if l.Rules().HasHeadroom() {
			whole = append(whole, fmt.Sprintf("ordinary_share %v", l.Rules().OrdinaryShare))
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
		if len(whole) > 0 {
			lines = append(lines, strings.Join(whole, ", "))
		}
		for _, warning := range config.Warnings(l) {
			lines = append(lines, "warning: "+warning)
		}
		findings = append(findings, checked{What: "limit " + l.Name, OK: true, Detail: strings.Join(lines, "\n")})
	}
	return findings
}
