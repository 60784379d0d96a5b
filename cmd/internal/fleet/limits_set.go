package fleet

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/cmd/internal/session"
	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/fleet/settings"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/internal/state"
	"github.com/headway-go/headway/internal/text/shell"
	"github.com/headway-go/headway/reservations"
)

// negativeRate is a rate that was taken for a flag.
var negativeRate = regexp.MustCompile(`-[0-9.][^ ]*$`)

func limitsSetCommand(env cli.Environment) *cobra.Command {
	var s limitsSettings
	var capacity float64
	c := &cobra.Command{
		Use:   "set LIMIT.METER RATE|CALLS",
		Short: "Set the rate of a meter, or the calls in flight, for the whole fleet",
		Long: `Set gives a meter of headway.yaml, or of live workers, another rate: for all keys of its limit or for
one. The fleet follows within 2 seconds.

The capacity (the largest burst) stays as configured; where nothing is configured, it is one period's worth of the new
rate. With --capacity 0 tasks start one after another. A task whose charge is above a smaller capacity is still served:
it waits for a full bucket and is paid back before others start.

An adaptive meter has the rate that is set, until it is unset. Of in_flight, set the number of calls: fewer let no call
start until enough have ended.`,
		Example: `  headway limits set openai.requests 300/m
  headway limits set openai.tokens 50000/m --capacity 5000 --key acme
  headway limits set openai.in_flight 30`,
		Args: cli.Named("LIMIT.METER", "RATE"),
	}
	s.flags(c)
	c.Flags().Float64Var(&capacity, "capacity", 0, "the largest burst, in tokens")
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if negative := negativeRate.FindString(err.Error()); negative != "" {
			err = fmt.Errorf("%s is no rate: it must be positive", negative)
		}
		return c.Parent().FlagErrorFunc()(c, err)
	})
	c.RunE = func(c *cobra.Command, args []string) error {
		switch {
		case !c.Flags().Changed("capacity"):
		case capacity == 0:
			capacity = reservations.None
		case !(capacity > 0):
			return cli.Usage("--capacity: %v must not be negative; leave it out to keep what is configured", capacity)
		}
		return setLimit(c.Context(), env, s, args[0], args[1], capacity)
	}
	return c
}

// manyTimes is how many times the present rate is probably a slip.
const manyTimes = 100

func setLimit(ctx context.Context, env cli.Environment, s limitsSettings, name, rate string, capacity float64) error {
	c, err := session.Settings(ctx, env, s.file, func(c config.Config) bool {
		_, _, unknown := meterOf(c.Limits, name)
		return unknown == nil
	})
	if err != nil {
		return err
	}
	limit, meter, err := meterOf(c.Limits, name)
	if err != nil {
		return err
	}
	set := reservations.Override{
		Limit: limit, Key: s.key, Meter: meter, Capacity: capacity, SetAt: time.Now().UTC(), By: whoSets(env.Getenv),
	}
	if err = config.ParseOverride(&set, rate); err != nil {
		return &cli.UsageError{Err: err}
	}
	if err = config.CheckOverride(c.Limits, set); err != nil {
		return &cli.UsageError{Err: err}
	}
	now, err := session.Open(ctx, env, c, session.Needs{NoQueue: true})
	if err != nil {
		return err
	}
	defer now.Close(ctx)
	before := inForce(now.Limiter, set)
	if err := confirmJump(ctx, env, withKey(name, s.key), rate, set, before); err != nil {
		return err
	}
	was := register.MeterLine(before)
	for _, o := range now.Overrides {
		if o.Limit == limit && o.Key == s.key && o.Meter == meter {
			was = fmt.Sprintf("%s, set by %s at %s", was, o.By, o.SetAt.UTC().Format(time.RFC3339))
		}
	}
	if err := now.Buckets.SetOverride(ctx, set); err != nil {
		return err
	}
	_ = inside.Of(now.Limiter).SetOverrides(append(now.Overrides, set)) // the set one is good; list shows the others
	fmt.Fprintf(env.Out, "%v: %s\n     was: %s\nThe fleet follows within %v. `%s` takes it back.\n",
		set, register.MeterLine(inForce(now.Limiter, set)), was, settings.FollowEvery,
		shell.Command("headway limits unset", name, keyFlag(s.key)...))
	return nil
}

// confirmJump asks on a terminal, and warns elsewhere, where a rate is manyTimes the present one.
func confirmJump(
	ctx context.Context, env cli.Environment, name, rate string, set reservations.Override, was reservations.Meter,
) error {
	times := set.Rate / set.Period.Seconds() / (was.Rate / was.Period.Seconds())
	if set.Rate <= 0 || times < manyTimes {
		return nil
	}
	return cli.Confirm(ctx, env, "%s is %s times the present rate of %s, %s", rate, cli.Amount(times), name,
		register.RateText(was))
}

func limitsUnsetCommand(env cli.Environment) *cobra.Command {
	var s limitsSettings
	c := &cobra.Command{
		Use:   "unset LIMIT.METER",
		Short: "Take a rate back that was set: the configured one counts again",
		Long: `Unset takes back what "limits set" has set for a meter: the configured rate, or for a key that of its
limit, counts again. The fleet follows within 2 seconds. Of a limit that is no more, what was set can be taken back as
well.`,
		Example: `  headway limits unset openai.requests
  headway limits unset openai.tokens --key acme`,
		Args: cli.Named("LIMIT.METER"),
	}
	s.flags(c)
	c.RunE = func(c *cobra.Command, args []string) error { return unsetLimit(c.Context(), env, s, args[0]) }
	return c
}

func unsetLimit(ctx context.Context, env cli.Environment, s limitsSettings, name string) error {
	if len(s.key) > bucket.MaxKey { // an override may have any other key
		return cli.Usage("--key has %d bytes: must be at most %d", len(s.key), bucket.MaxKey)
	}
	now, err := session.Load(ctx, env, s.file, session.Needs{NoQueue: true})
	if err != nil {
		return err
	}
	defer now.Close(ctx)
	for i, o := range now.Overrides {
		if o.Limit+"."+o.Meter != name || o.Key != s.key {
			continue
		}
		there, err := now.Buckets.UnsetOverride(ctx, o.Limit, o.Key, o.Meter)
		if err != nil {
			return err
		}
		if !there {
			break // another process was faster
		}
		was := state.OverrideText(o)
		if o.Meter != reservations.MeterInFlight && o.Capacity != 0 {
			was = register.RateLine(was, max(0, o.Capacity))
		}
		// list shows the overrides that can't be applied
		_ = inside.Of(now.Limiter).SetOverrides(slices.Delete(now.Overrides, i, i+1))
		line := "is in no live worker, and not in " + s.file
		if m := inForce(now.Limiter, o); m.Name != "" {
			line = register.MeterLine(m)
		}
		fmt.Fprintf(env.Out, "%v: %s\n     was: %s\nThe fleet follows within %v.\n", o, line, was,
			settings.FollowEvery)
		return nil
	}
	if _, _, err := meterOf(now.Config.Limits, name); err != nil {
		return err
	}
	fmt.Fprintf(env.Out, "%s: nothing was set\n", withKey(name, s.key))
	return nil
}

// withKey names a meter of a limit, or of one of its keys.
func withKey(name, key string) string {
	name = shell.Word(name)
	if key != "" {
		name += " --key " + shell.Word(key)
	}
	return name
}

// keyFlag is the flag for a key, empty without one.
func keyFlag(key string) []string {
	if key == "" {
		return nil
	}
	return []string{"--key", key}
}
