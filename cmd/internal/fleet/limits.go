package fleet

import (
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/text/nearest"
	"github.com/headway-go/headway/reservations"
)

func limitsCommand(env cli.Environment) *cobra.Command {
	c := &cobra.Command{
		Use:   "limits",
		Short: "Show the limits, and change them while the fleet runs",
		Long: `Limits shows what live workers and headway.yaml have and what was set above it, and sets another rate for
a meter: the whole fleet goes by it within 2 seconds, without a restart. Waiting tasks start earlier or later
accordingly; none is lost. Reset and unblock let waiting tasks start at once.

What is set stays set, also when workers restart, until "limits unset". It is kept beside the buckets.`,
		Example: `  headway limits list
  headway limits show openai
  headway limits set openai.requests 300/m
  headway limits set openai.tokens 50000/m --capacity 5000 --key acme
  headway limits unset openai.requests
  headway limits unblock openai`,
	}
	c.AddCommand(
		limitsSetCommand(env), limitsUnsetCommand(env), limitsListCommand(env), newLimitsShow(env),
		limitsResetCommand(env), limitsUnblockCommand(env),
	)
	return c
}

// limitsSettings are the flags that the commands below limits share.
type limitsSettings struct{ file, key string }

func (s *limitsSettings) flags(c *cobra.Command) {
	configFlag(c, &s.file)
	c.Flags().StringVar(&s.key, "key", "",
		"only this key of the limit, e.g. a tenant; empty means all keys that have no rate of their own")
}

// meterOf finds the meter that a person names "limit.meter". The error lists what there is. Names may hold points: what
// two limits can mean is an error too.
func meterOf(limits []reservations.Limit, name string) (limit, meter string, err error) {
	var known []string
	for _, l := range limits {
		for _, m := range l.Meters {
			switch {
			case l.Name+"."+m.Name != name:
			case limit != "":
				return "", "", cli.Usage("%q is meter %s of limit %s, and meter %s of limit %s: give one of them another name",
					name, meter, limit, m.Name, l.Name)
			default:
				limit, meter = l.Name, m.Name
			}
			known = append(known, l.Name+"."+m.Name)
		}
	}
	if limit != "" {
		return limit, meter, nil
	}
	if len(known) == 0 {
		return "", "", cli.Usage("there is no meter %q: neither the file nor a live worker has limits; name the file of the "+
			"workers with --config", name)
	}
	if of, ok := strings.CutSuffix(name, "."+reservations.MeterInFlight); ok && slices.ContainsFunc(limits,
		func(l reservations.Limit) bool { return l.Name == of }) {
		return "", "", cli.Usage("limit %s has no in_flight: add it where the limit is set up, e.g. in_flight: 20 in "+
			"headway.yaml; then its number can be set", of)
	}
	return "", "", cli.Usage("there is no meter %q; %s", name, nearest.There(name, known))
}

// inForce is the meter that an override is for, as it counts; zero if there is none.
func inForce(l *reservations.Limiter, o reservations.Override) reservations.Meter {
	limit, _ := inside.Of(l).Limits().For(o.Limit, o.Key) // an unknown limit has no meters
	for _, m := range limit.Meters {
		if m.Name == o.Meter {
			return m
		}
	}
	return reservations.Meter{}
}

// whoSets names the user at the command line, for later readers of the override.
func whoSets(getenv func(string) string) string {
	user := getenv("USER")
	if user == "" {
		user = "unknown"
	}
	host, err := os.Hostname()
	if err != nil {
		return user
	}
	return user + "@" + host
}
