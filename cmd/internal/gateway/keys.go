package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/cmd/internal/session"
	"github.com/headway-go/headway/internal/documents/keys"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/internal/text/period"
	"github.com/headway-go/headway/reservations"
)

func keysCommand(env cli.Environment) *cobra.Command {
	c := &cobra.Command{
		Use:   "keys",
		Short: "Make, list, replace and revoke the keys of callers of the gateway",
		Long: `Keys let callers use the gateway, and say what each caller may do. They are stored as hashes where the buckets
are. While there is no key, a gateway on loopback serves everybody, and one elsewhere does not start.`,
	}
	c.AddCommand(createCommand(env), listCommand(env), rotateCommand(env), revokeCommand(env))
	return c
}

// store opens the store of the keys.
func store(ctx context.Context, env cli.Environment, file string) (*session.Session, keys.Store, error) {
	s, err := session.Load(ctx, env, file, session.Needs{NoQueue: true})
	if err != nil {
		return nil, nil, err
	}
	return s, s.Buckets.Keys(), nil
}

func fileFlag(c *cobra.Command, file *string) {
	c.Flags().StringVar(file, "config", config.FileDefault, "the `file` with the limits")
}

func createCommand(env cli.Environment) *cobra.Command {
	var file, budget, unit string
	var expires time.Duration
	var key keys.Key
	c := &cobra.Command{
		Use:   "create",
		Short: "Make a key, and print it once",
		Long: `Create makes a key, and prints it on standard output. It is shown this once: only its hash is stored.

Calls with the key take from its limits first, then from the provider's. Its tenant is the flow of its calls, so tenants
share a limit fairly. A budget counts what calls cost, by the prices of headway.yaml: each reserves what it may cost, so
many calls at once can't spend more.`,
		Example: `  headway keys create --tenant acme
  headway keys create --tenant acme --limit tenants:acme --expires 90d
  headway keys create --tenant acme --priority interactive
  headway keys create --tenant acme --models "gpt-4o*,claude-*"
  headway keys create --tenant acme --budget 50/d`,
		RunE: func(c *cobra.Command, _ []string) error {
			s, stored, err := store(c.Context(), env, file)
			if err != nil {
				return err
			}
			defer s.Close(c.Context())
			now := time.Now()
			if expires > 0 {
				key.Expires = now.Add(expires).UTC().Truncate(time.Second)
			}
			if budget != "" {
				amount, each, fault := config.ParseRate(budget)
				if fault != nil {
					return cli.Usage("--budget: %w", fault)
				}
				key.Budget = &keys.Budget{Amount: amount, Period: each, Unit: unit}
			}
			if err = check(key, s.Config); err != nil {
				return err
			}
			secret, made, err := keys.Create(c.Context(), stored, key, now)
			if err != nil {
				return err
			}
			show(env, secret, made)
			return nil
		},
	}
	fileFlag(c, &file)
	f := c.Flags()
	f.StringVar(&key.Tenant, "tenant", "", "whose key it is; required")
	f.StringArrayVar(&key.Limits, "limit", nil,
		"a `LIMIT[:KEY]` that its calls take from; repeat it for several, the narrowest first")
	f.StringVar(&key.Flow, "flow", "", "the flow of its calls; the tenant when left out")
	f.StringVar(&key.Priority, "priority", "", "the priority of its calls, one of the limits'")
	f.StringSliceVar(&key.Models, "models", nil,
		"the `models` that it may use, with wildcards as in gpt-4o*; all when left out")
	f.StringVar(&budget, "budget", "", "what its calls may cost, as `AMOUNT/PERIOD`, e.g. 50/d")
	f.StringVar(&unit, "unit", "usd", "the currency of --budget, that of prices")
	f.Var((*period.Flag)(&expires), "expires", "how long it lasts, e.g. 90d; for ever when left out")
	return c
}

// check says what of a key does not fit the settings.
func check(key keys.Key, c config.Config) error {
	if key.Tenant == "" {
		return cli.Usage("--tenant is required: it says whose key it is")
	}
	priorities := false
	for _, charge := range key.Charges() {
		i := slices.IndexFunc(c.Limits, func(l reservations.Limit) bool { return l.Name == charge.Limit })
		if i < 0 {
			return cli.Usage("--limit: there is no limit %q; a limit in headway.yaml, below limits, looks like\n"+
				"  %[1]s: {meters: {requests: 60/m, tokens: 100000/m}}", charge.Limit)
		}
	}
	for _, l := range c.Limits {
		_, has := l.Priorities[key.Priority]
		priorities = priorities || has
	}
	if key.Priority != "" && !priorities {
		return cli.Usage("--priority %s: no limit has it; in headway.yaml, below the limit of the provider, it looks like\n"+
			"    priorities: {%[1]s: 9, batch: 1}", key.Priority)
	}
	for _, pattern := range key.Models {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			return cli.Usage("--models: %q is no pattern; it looks like gpt-4o*", pattern)
		}
	}
	if key.Budget != nil && len(c.Prices) == 0 {
		return cli.Usage("--budget needs the prices of models in headway.yaml, of a million tokens each:\n" +
			"prices:\n  gpt-4o-mini: {input: 0.15, output: 0.60}")
	}
	charges := key.Charges()
	for i := range charges {
		charges[i].Flow = cmp.Or(key.Flow, key.Tenant)
	}
	charges = append(charges, reservations.Charge{Limit: "flow", Flow: cmp.Or(key.Flow, key.Tenant)})
	if err := reservations.ValidateCharges(charges); err != nil {
		return &cli.UsageError{Err: err}
	}
	return nil
}

// show prints a secret, and what it is for.
func show(env cli.Environment, secret string, key keys.Key) {
	fmt.Fprintln(env.Out, secret)
	until := ""
	if !key.Expires.IsZero() {
		until = ", until " + key.Expires.Format(time.RFC3339)
	}
	fmt.Fprintf(env.Err, "key %s of %s%s; it is shown only now. Gateways know it within 2 seconds.\n", key.ID, key.Tenant,
		until)
}

func listCommand(env cli.Environment) *cobra.Command {
	var file string
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the keys, without their secrets",
		Example: `  headway keys list
  headway keys list --json`,
		RunE: func(c *cobra.Command, _ []string) error {
			s, stored, err := store(c.Context(), env, file)
			if err != nil {
				return err
			}
			defer s.Close(c.Context())
			all, err := stored.All(c.Context())
			if all == nil {
				return err
			}
			if err != nil {
				cli.Warn(env, "%v", err)
			}
			listed := slices.SortedFunc(maps.Values(all), func(a, b keys.Key) int {
				return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
			})
			if asJSON {
				if listed == nil {
					listed = []keys.Key{}
				}
				return cli.JSON(env.Out).Encode(listed)
			}
			rows := [][]string{{"KEY", "TENANT", "LIMITS", "PRIORITY", "MODELS", "BUDGET", "EXPIRES"}}
			now := time.Now()
			for _, k := range listed {
				rows = append(rows, row(k, now))
			}
			for _, line := range cli.Aligned(rows) {
				fmt.Fprintln(env.Out, line)
			}
			return nil
		},
	}
	fileFlag(c, &file)
	c.Flags().BoolVar(&asJSON, "json", false, "print them as JSON")
	return c
}

func row(k keys.Key, now time.Time) []string {
	list := func(texts []string) string { return cmp.Or(strings.Join(texts, ","), "-") }
	budget, expires := "-", "-"
	if b := k.Budget; b != nil {
		budget = fmt.Sprintf("%s %s", cli.Rate(b.Amount, b.Period), b.Unit)
	}
	if !k.Expires.IsZero() {
		if expires = k.Expires.Format(time.DateTime); !k.Live(now) {
			expires = "expired"
		}
	}
	return []string{k.ID, k.Tenant, list(k.Limits), cmp.Or(k.Priority, "-"), list(k.Models), budget, expires}
}

func rotateCommand(env cli.Environment) *cobra.Command {
	var file string
	overlap := 24 * time.Hour
	c := &cobra.Command{
		Use:     "rotate KEY",
		Short:   "Make a key that may do the same, and end the old one after a while",
		Example: `  headway keys rotate 1f2e3d4c5b6a --overlap 2h`,
		Args:    cli.Named("KEY"),
		RunE: func(c *cobra.Command, args []string) error {
			s, stored, err := store(c.Context(), env, file)
			if err != nil {
				return err
			}
			defer s.Close(c.Context())
			secret, made, err := keys.Rotate(c.Context(), stored, args[0], overlap, time.Now())
			if err != nil {
				return notFound(err)
			}
			show(env, secret, made)
			fmt.Fprintf(env.Err, "key %s ends in %v\n", args[0], overlap)
			return nil
		},
	}
	fileFlag(c, &file)
	c.Flags().Var((*period.Flag)(&overlap), "overlap", "how long the old key still counts")
	return c
}

func revokeCommand(env cli.Environment) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:     "revoke KEY",
		Short:   "End a key now",
		Example: `  headway keys revoke 1f2e3d4c5b6a`,
		Args:    cli.Named("KEY"),
		RunE: func(c *cobra.Command, args []string) error {
			s, stored, err := store(c.Context(), env, file)
			if err != nil {
				return err
			}
			defer s.Close(c.Context())
			hash, key, err := keys.Find(c.Context(), stored, args[0])
			if err != nil {
				return notFound(err)
			}
			if err = stored.Delete(c.Context(), hash); err != nil {
				return err
			}
			fmt.Fprintf(env.Err, "key %s of %s is revoked; gateways refuse it within 2 seconds\n", key.ID, key.Tenant)
			all, err := stored.All(c.Context())
			if err == nil && len(all) == 0 {
				fmt.Fprintln(env.Err, "no key is left: gateways on loopback serve every caller now, others none")
			}
			return nil
		},
	}
	fileFlag(c, &file)
	return c
}

func notFound(err error) error {
	if errors.Is(err, keys.ErrNotFound) {
		return cli.Usage("%w; `headway keys list` shows their names", err)
	}
	return err
}
